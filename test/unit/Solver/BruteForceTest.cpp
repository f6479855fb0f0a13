//===- BruteForceTest.cpp - The optimum of small instances ----------------===//

#include "RandomProblem.h"
#include "heddle/Solver/ProblemIO.h"
#include "heddle/Solver/Solve.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>

namespace heddle::solver {
namespace {

/// Returns the number of random instances: 10,000 with HEDDLE_LONG_TESTS=1.
size_t instanceCount() {
  const char *longText = std::getenv("HEDDLE_LONG_TESTS");
  return longText && *longText && *longText != '0' ? 10000 : 500;
}

TEST(BruteForce, FindsAndProvesTheOptimumOfSmallInstances) {
  size_t feasible = 0, infeasible = 0;
  for (size_t i = 0; i < instanceCount(); ++i) {
    std::mt19937_64 r(i);
    Problem p = test::randomProblem(r, 20000);
    ASSERT_EQ(llvm::toString(validate(p)), "") << "instance " << i;
    std::optional<Cost> expected = test::bruteForce(p);
    (expected ? feasible : infeasible)++;

    SolveOptions o;
    o.threads = 1;
    o.timeoutSeconds = 1e6;
    o.seed = i;
    o.onProgress = [&](const Progress &now) {
      EXPECT_LE(now.lowerBound, expected.value_or(kInfiniteCost))
          << "instance " << i;
    };
    auto s = solve(p, o);
    ASSERT_TRUE(bool(s)) << llvm::toString(s.takeError());
    if (!expected) {
      ASSERT_EQ(s->why, StopReason::Infeasible)
          << "instance " << i << ": " << printProblem(p);
      EXPECT_FALSE(s->best);
      EXPECT_FALSE(s->explanation.empty()) << "instance " << i;
      continue;
    }
    ASSERT_EQ(s->why, StopReason::Optimal)
        << "instance " << i << ": " << printProblem(p);
    ASSERT_TRUE(s->best);
    EXPECT_EQ(s->total, *expected) << "instance " << i;
    EXPECT_EQ(s->lowerBound, *expected) << "instance " << i;
    auto value = evaluate(p, *s->best);
    ASSERT_TRUE(bool(value));
    EXPECT_TRUE(value->isFeasible());
    EXPECT_EQ(value->total, *expected);
  }
  // The generator must make instances of both kinds.
  EXPECT_GT(feasible, instanceCount() / 4);
  EXPECT_GT(infeasible, instanceCount() / 20);
}

/// Joins problems to one, in which their nodes live one problem after the other
/// and stand in random order.
Problem sideBySide(const std::vector<Problem> &parts, std::mt19937_64 &r) {
  Problem whole;
  whole.usageLimit = parts[0].usageLimit;
  std::vector<std::pair<size_t, uint32_t>> order; // part, node
  for (size_t i = 0; i < parts.size(); ++i)
    for (uint32_t n = 0; n < parts[i].nodes.size(); ++n)
      order.emplace_back(i, n);
  std::ranges::shuffle(order, r);
  for (auto [i, n] : order) {
    whole.nodes.push_back(parts[i].nodes[n]);
    auto shift = static_cast<int64_t>(1000 * i);
    whole.nodes.back().live.begin += shift;
    whole.nodes.back().live.end += shift;
  }
  for (size_t i = 0; i < parts.size(); ++i)
    for (Edge e : parts[i].edges) {
      for (uint32_t &n : e.nodes)
        n = std::ranges::find(order, std::pair(i, n)) - order.begin();
      whole.edges.push_back(std::move(e));
    }
  return whole;
}

TEST(BruteForce, PartsThatDoNotMeetAddUp) {
  size_t feasible = 0, count = instanceCount() / 5;
  for (size_t i = 0; i < count; ++i) {
    std::mt19937_64 r(i);
    Problem first = test::randomProblem(r, 2000);
    Problem other = test::randomProblem(r, 2000);
    other.usageLimit = first.usageLimit;
    auto ofFirst = test::bruteForce(first), ofOther = test::bruteForce(other);
    Cost sum = addCosts(ofFirst.value_or(kInfiniteCost),
                        ofOther.value_or(kInfiniteCost));
    Cost expected = addCosts(sum, ofFirst.value_or(kInfiniteCost));
    Problem p = sideBySide({first, other, first}, r);
    SolveOptions o;
    o.threads = 1;
    o.timeoutSeconds = 1e6;
    auto s = solve(p, o);
    ASSERT_TRUE(bool(s)) << llvm::toString(s.takeError());
    EXPECT_EQ(s->total, expected) << "instance " << i;
    EXPECT_EQ(s->lowerBound, expected) << "instance " << i;
    EXPECT_EQ(s->why, expected < kInfiniteCost ? StopReason::Optimal
                                               : StopReason::Infeasible)
        << "instance " << i;
    feasible += expected < kInfiniteCost;
  }
  EXPECT_GT(feasible, count / 20);
}

} // namespace
} // namespace heddle::solver
