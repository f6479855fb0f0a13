//===- BruteForceTest.cpp - The optimum of small instances ----------------===//

#include "RandomProblem.h"
#include "heddle/Plan/Solver/ProblemIO.h"
#include "heddle/Plan/Solver/Solve.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace heddle::solver {
namespace {

/// HEDDLE_LONG_TESTS=1 tries 10,000 instances.
size_t instanceCount() {
  const char *Long = std::getenv("HEDDLE_LONG_TESTS");
  return Long && *Long && *Long != '0' ? 10000 : 500;
}

TEST(BruteForce, FindsAndProvesTheOptimumOfSmallInstances) {
  size_t Feasible = 0, Infeasible = 0;
  for (size_t I = 0; I < instanceCount(); ++I) {
    std::mt19937_64 R(I);
    Problem P = test::randomProblem(R, 20000);
    ASSERT_FALSE(validate(P)) << "instance " << I;
    std::optional<Cost> Expected = test::bruteForce(P);
    (Expected ? Feasible : Infeasible)++;

    SolveOptions O;
    O.Threads = 1;
    O.TimeoutSeconds = 20;
    O.Seed = I;
    O.OnProgress = [&](const Progress &Now) {
      EXPECT_LE(Now.LowerBound, Expected.value_or(InfiniteCost))
          << "instance " << I;
    };
    auto S = solve(P, O);
    ASSERT_TRUE(bool(S)) << S.error().Message;
    if (!Expected) {
      ASSERT_EQ(S->Why, StopReason::Infeasible)
          << "instance " << I << ": " << printProblem(P);
      EXPECT_FALSE(S->Best);
      continue;
    }
    ASSERT_EQ(S->Why, StopReason::Optimal)
        << "instance " << I << ": " << printProblem(P);
    ASSERT_TRUE(S->Best);
    EXPECT_EQ(S->Total, *Expected) << "instance " << I;
    EXPECT_EQ(S->LowerBound, *Expected) << "instance " << I;
    auto Value = evaluate(P, *S->Best);
    ASSERT_TRUE(bool(Value));
    EXPECT_TRUE(Value->feasible());
    EXPECT_EQ(Value->Total, *Expected);
  }
  // The generator makes both kinds, or the test would show little.
  EXPECT_GT(Feasible, instanceCount() / 4);
  EXPECT_GT(Infeasible, instanceCount() / 20);
}

} // namespace
} // namespace heddle::solver
