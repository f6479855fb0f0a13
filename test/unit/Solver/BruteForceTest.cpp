//===- BruteForceTest.cpp - The optimum of small instances ----------------===//

#include "RandomProblem.h"
#include "heddle/Solver/ProblemIO.h"
#include "heddle/Solver/Solve.h"

#include <algorithm>
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
      EXPECT_FALSE(S->Explanation.empty()) << "instance " << I;
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

/// `Parts` one after another in time, their nodes in any order.
Problem sideBySide(const std::vector<Problem> &Parts, std::mt19937_64 &R) {
  Problem Whole;
  Whole.UsageLimit = Parts[0].UsageLimit;
  std::vector<std::pair<size_t, uint32_t>> Order; // part, node
  for (size_t I = 0; I < Parts.size(); ++I)
    for (uint32_t N = 0; N < Parts[I].Nodes.size(); ++N)
      Order.emplace_back(I, N);
  std::ranges::shuffle(Order, R);
  for (auto [I, N] : Order) {
    Whole.Nodes.push_back(Parts[I].Nodes[N]);
    auto Shift = static_cast<int64_t>(1000 * I);
    Whole.Nodes.back().Live.Begin += Shift;
    Whole.Nodes.back().Live.End += Shift;
  }
  for (size_t I = 0; I < Parts.size(); ++I)
    for (Edge E : Parts[I].Edges) {
      for (uint32_t &N : E.Nodes)
        N = std::ranges::find(Order, std::pair(I, N)) - Order.begin();
      Whole.Edges.push_back(std::move(E));
    }
  return Whole;
}

TEST(BruteForce, PartsThatDoNotMeetAddUp) {
  size_t Feasible = 0, Count = instanceCount() / 5;
  for (size_t I = 0; I < Count; ++I) {
    std::mt19937_64 R(I);
    Problem First = test::randomProblem(R, 2000);
    Problem Other = test::randomProblem(R, 2000);
    Other.UsageLimit = First.UsageLimit;
    auto OfFirst = test::bruteForce(First), OfOther = test::bruteForce(Other);
    Cost Sum = addCosts(OfFirst.value_or(InfiniteCost),
                        OfOther.value_or(InfiniteCost));
    Cost Expected = addCosts(Sum, OfFirst.value_or(InfiniteCost));
    Problem P = sideBySide({First, Other, First}, R);
    SolveOptions O;
    O.Threads = 1;
    O.TimeoutSeconds = 20;
    auto S = solve(P, O);
    ASSERT_TRUE(bool(S)) << S.error().Message;
    EXPECT_EQ(S->Total, Expected) << "instance " << I;
    EXPECT_EQ(S->LowerBound, Expected) << "instance " << I;
    EXPECT_EQ(S->Why, Expected < InfiniteCost ? StopReason::Optimal
                                              : StopReason::Infeasible)
        << "instance " << I;
    Feasible += Expected < InfiniteCost;
  }
  EXPECT_GT(Feasible, Count / 20);
}

} // namespace
} // namespace heddle::solver
