//===- SolveTest.cpp - Limits, determinism, infeasibility -----------------===//

#include "heddle/Solver/Solve.h"
#include "Grid.h"
#include "Reduce/Presolve.h"

#include <gtest/gtest.h>
#include <random>

namespace heddle::solver {
namespace {

/// Returns a grid with random costs and a tight limit, whose optimum is too
/// hard to prove quickly.
Problem hardGrid(uint64_t seed, uint32_t side = 20) {
  std::mt19937_64 r(seed);
  constexpr uint32_t kStrategies = 6;
  Problem p;
  for (uint32_t i = 0; i < side * side; ++i) {
    Node n;
    n.live = {i / 4, i / 4 + 60};
    for (uint32_t s = 0; s < kStrategies; ++s) {
      n.costs.push_back(r() % 100000);
      n.usages.push_back(1 + r() % 1000);
    }
    p.nodes.push_back(std::move(n));
  }
  joinGrid(static_cast<int32_t>(side), [&](uint32_t a, uint32_t b) {
    Edge e{{a, b}, {}};
    for (uint32_t s = 0; s < kStrategies * kStrategies; ++s)
      e.costs.push_back(r() % 100000);
    p.edges.push_back(std::move(e));
  });
  p.usageLimit = std::min(60 * 4u, side * side) * 300;
  return p;
}

TEST(Solve, SameSeedAndWorkGiveTheSameAnswerOnAnyThreads) {
  // The grid is small, so the work limit allows many rounds.
  Problem p = hardGrid(1, 11);
  SolveOptions o;
  o.timeoutSeconds = 1e6;
  o.workLimit = 300'000'000;
  o.threads = 1;
  auto one = solve(p, o);
  o.threads = 4;
  auto four = solve(p, o);
  ASSERT_TRUE(one && four && one->best && four->best);
  EXPECT_EQ(one->why, StopReason::WorkLimit);
  EXPECT_EQ(*one->best, *four->best);
  EXPECT_EQ(one->lowerBound, four->lowerBound);
  EXPECT_EQ(one->work, four->work);
}

TEST(Solve, ReportsImprovementsInOrder) {
  SolveOptions o;
  o.timeoutSeconds = 1e6;
  o.workLimit = 60'000'000;
  Cost lastCost = kInfiniteCost, lastBound = 0;
  double lastTime = 0;
  o.onProgress = [&](const Progress &now) {
    EXPECT_GE(now.seconds, lastTime);
    EXPECT_GE(now.lowerBound, lastBound);
    Cost c = now.best.value_or(kInfiniteCost);
    EXPECT_LE(c, lastCost);
    EXPECT_TRUE(c < lastCost || now.lowerBound > lastBound);
    EXPECT_LE(now.lowerBound, c);
    lastTime = now.seconds;
    lastBound = now.lowerBound;
    lastCost = c;
  };
  auto s = solve(hardGrid(2, 8), o);
  ASSERT_TRUE(s && s->best);
  EXPECT_EQ(s->total, lastCost);
  EXPECT_EQ(s->lowerBound, lastBound);
  EXPECT_EQ(evaluate(hardGrid(2, 8), *s->best)->total, lastCost);
}

TEST(Solve, StopsAtTheGap) {
  SolveOptions o;
  o.gap = 0.5;
  auto s = solve(hardGrid(3), o);
  ASSERT_TRUE(s && s->best);
  EXPECT_EQ(s->why, StopReason::Gap);
  EXPECT_LE(s->gap, 0.5);
}

TEST(Solve, StopsAtTheTimeout) {
  SolveOptions o;
  o.timeoutSeconds = 0.3;
  o.threads = 2;
  auto s = solve(hardGrid(4), o);
  ASSERT_TRUE(bool(s));
  EXPECT_EQ(s->why, StopReason::Timeout);
}

/// No strategy dominates another, so that reductions compare all pairs of
/// strategies. They ask at least once for each strategy whether to stop.
TEST(Solve, ReductionsKeepTheTimeout) {
  std::mt19937_64 r(1);
  constexpr uint32_t kCount = 20, kStrategies = 100;
  Problem p;
  for (uint32_t i = 0; i < kCount; ++i) {
    Node n{{0, 1}, {}, {}};
    for (uint32_t s = 0; s < kStrategies; ++s) {
      n.costs.push_back(r() % 1000);
      n.usages.push_back(1);
    }
    p.nodes.push_back(std::move(n));
    for (uint32_t j = i < 3 ? 0 : i - 3; j < i; ++j) {
      Edge e{{j, i}, {}};
      for (uint32_t s = 0; s < kStrategies * kStrategies; ++s)
        e.costs.push_back(r() % 1000);
      p.edges.push_back(std::move(e));
    }
  }
  uint64_t asked = 0;
  Presolver unlimited(p);
  EXPECT_TRUE(unlimited.run([&] { return ++asked == 0; }));
  EXPECT_GE(asked, uint64_t{kCount * kStrategies});

  uint64_t askedAgain = 0, limit = asked / 2;
  Presolver stopped(p);
  EXPECT_TRUE(stopped.run([&] { return ++askedAgain >= limit; }));
  EXPECT_LE(askedAgain, limit + 10);
}

TEST(Solve, TimeSpentBeforeCounts) {
  SolveOptions o;
  o.timeoutSeconds = 1e6;
  o.secondsSpent = 2e6;
  double first = 0;
  o.onProgress = [&](const Progress &now) { first = now.seconds; };
  auto s = solve(hardGrid(7), o);
  ASSERT_TRUE(bool(s));
  EXPECT_EQ(s->why, StopReason::Timeout);
  EXPECT_GE(first, 2e6);
}

TEST(Solve, StopsWhenAskedTo) {
  std::atomic<bool> stop{false};
  SolveOptions o;
  o.timeoutSeconds = 1e6;
  o.stop = &stop;
  o.onProgress = [&](const Progress &now) { stop = now.best.has_value(); };
  auto s = solve(hardGrid(5), o);
  ASSERT_TRUE(s && s->best);
  EXPECT_EQ(s->why, StopReason::Interrupted);
}

TEST(Solve, RefusesInvalidProblems) {
  Problem p = hardGrid(6);
  p.nodes[3].live = {5, 4};
  auto s = solve(p, {});
  ASSERT_FALSE(s);
  EXPECT_EQ(llvm::toString(s.takeError()),
            "nodes.intervals[3]: expected 0 <= begin <= end, got [5, 4]");
}

TEST(Solve, EmptyProblem) {
  auto s = solve(Problem{}, {});
  ASSERT_TRUE(s && s->best);
  EXPECT_EQ(s->why, StopReason::Optimal);
  EXPECT_TRUE(s->best->empty());
  EXPECT_EQ(s->total, 0);
}

TEST(Solve, NearestMissNamesTimeAndNodes) {
  Problem p;
  p.nodes = {{{0, 10}, {1, 2}, {9, 5}},
             {{4, 6}, {1, 2}, {8, 7}},
             {{20, 30}, {1}, {3}}};
  p.usageLimit = 11;
  auto s = solve(p, {});
  ASSERT_TRUE(bool(s));
  EXPECT_EQ(s->why, StopReason::Infeasible);
  EXPECT_FALSE(s->explanation.empty());
  ASSERT_TRUE(s->miss);
  EXPECT_EQ(s->miss->time, 4);
  EXPECT_EQ(s->miss->excess, 1);
  EXPECT_EQ(s->miss->nodes, (std::vector<uint32_t>{1, 0}));
}

TEST(Solve, ContradictingEdgesAreInfeasible) {
  Problem p;
  p.nodes = {{{0, 1}, {0, 0}, {0, 0}}, {{0, 1}, {0, 0}, {0, 0}}};
  p.edges = {{{0, 1}, {0, kInfiniteCost, kInfiniteCost, 0}},
             {{0, 1}, {kInfiniteCost, 0, 0, kInfiniteCost}}};
  auto s = solve(p, {});
  ASSERT_TRUE(bool(s));
  EXPECT_EQ(s->why, StopReason::Infeasible);
  EXPECT_EQ(s->lowerBound, kInfiniteCost);
}

} // namespace
} // namespace heddle::solver
