//===- SolveTest.cpp - Limits, determinism, infeasibility -----------------===//

#include "heddle/Solver/Solve.h"
#include "Grid.h"
#include "RandomProblem.h"

#include <ctime>
#include <gtest/gtest.h>

namespace heddle::solver {
namespace {

/// A grid with random costs and a tight limit: too hard to prove at once.
Problem hardGrid(uint64_t Seed, uint32_t Side = 20) {
  std::mt19937_64 R(Seed);
  constexpr uint32_t Strategies = 6;
  Problem P;
  for (uint32_t I = 0; I < Side * Side; ++I) {
    Node N;
    N.Live = {I / 4, I / 4 + 60};
    for (uint32_t S = 0; S < Strategies; ++S) {
      N.Costs.push_back(R() % 100000);
      N.Usages.push_back(1 + R() % 1000);
    }
    P.Nodes.push_back(std::move(N));
  }
  joinGrid(static_cast<int32_t>(Side), [&](uint32_t A, uint32_t B) {
    Edge E{{A, B}, {}};
    for (uint32_t S = 0; S < Strategies * Strategies; ++S)
      E.Costs.push_back(R() % 100000);
    P.Edges.push_back(std::move(E));
  });
  P.UsageLimit = std::min(60 * 4u, Side * Side) * 300;
  return P;
}

TEST(Solve, SameSeedAndWorkGiveTheSameAnswerOnAnyThreads) {
  // Small, so that there are many rounds.
  Problem P = hardGrid(1, 11);
  SolveOptions O;
  O.TimeoutSeconds = 1e6;
  O.WorkLimit = 300'000'000;
  O.Threads = 1;
  auto One = solve(P, O);
  O.Threads = 4;
  auto Four = solve(P, O);
  ASSERT_TRUE(One && Four && One->Best && Four->Best);
  EXPECT_EQ(One->Why, StopReason::WorkLimit);
  EXPECT_EQ(*One->Best, *Four->Best);
  EXPECT_EQ(One->LowerBound, Four->LowerBound);
  EXPECT_EQ(One->Work, Four->Work);
}

TEST(Solve, ReportsImprovementsInOrder) {
  SolveOptions O;
  O.TimeoutSeconds = 1e6;
  O.WorkLimit = 60'000'000;
  Cost LastCost = InfiniteCost, LastBound = 0;
  double LastTime = 0;
  O.OnProgress = [&](const Progress &Now) {
    EXPECT_GE(Now.Seconds, LastTime);
    EXPECT_GE(Now.LowerBound, LastBound);
    Cost C = Now.Best.value_or(InfiniteCost);
    EXPECT_LE(C, LastCost);
    EXPECT_TRUE(C < LastCost || Now.LowerBound > LastBound);
    EXPECT_LE(Now.LowerBound, C);
    LastTime = Now.Seconds;
    LastBound = Now.LowerBound;
    LastCost = C;
  };
  auto S = solve(hardGrid(2, 8), O);
  ASSERT_TRUE(S && S->Best);
  EXPECT_EQ(S->Total, LastCost);
  EXPECT_EQ(S->LowerBound, LastBound);
  EXPECT_EQ(evaluate(hardGrid(2, 8), *S->Best)->Total, LastCost);
}

TEST(Solve, StopsAtTheGap) {
  SolveOptions O;
  O.Gap = 0.5;
  auto S = solve(hardGrid(3), O);
  ASSERT_TRUE(S && S->Best);
  EXPECT_EQ(S->Why, StopReason::Gap);
  EXPECT_LE(S->Gap, 0.5);
}

TEST(Solve, StopsAtTheTimeout) {
  SolveOptions O;
  O.TimeoutSeconds = 0.3;
  O.Threads = 2;
  auto Start = std::clock(); // processor time: the machine may be busy
  auto S = solve(hardGrid(4), O);
  double Took = double(std::clock() - Start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(bool(S));
  EXPECT_EQ(S->Why, StopReason::Timeout);
  EXPECT_LT(Took, 3);
}

/// Many strategies of which none dominates another: the reductions alone would
/// take many seconds.
TEST(Solve, ReductionsKeepTheTimeout) {
  std::mt19937_64 R(1);
  constexpr uint32_t Count = 60, Strategies = 300;
  Problem P;
  for (uint32_t I = 0; I < Count; ++I) {
    Node N{{0, 1}, {}, {}};
    for (uint32_t S = 0; S < Strategies; ++S) {
      N.Costs.push_back(R() % 1000);
      N.Usages.push_back(1);
    }
    P.Nodes.push_back(std::move(N));
    for (uint32_t J = I < 3 ? 0 : I - 3; J < I; ++J) {
      Edge E{{J, I}, {}};
      for (uint32_t S = 0; S < Strategies * Strategies; ++S)
        E.Costs.push_back(R() % 1000);
      P.Edges.push_back(std::move(E));
    }
  }
  SolveOptions O;
  O.Threads = 2;
  O.TimeoutSeconds = 0.5;
  auto Start = std::clock(); // processor time: the machine may be busy
  auto S = solve(P, O);
  double Took = double(std::clock() - Start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(bool(S));
  EXPECT_EQ(S->Why, StopReason::Timeout);
  EXPECT_LT(Took, 4 * test::slowdown());
}

TEST(Solve, TimeSpentBeforeCounts) {
  SolveOptions O;
  O.TimeoutSeconds = 1e6;
  O.SecondsSpent = 2e6;
  double First = 0;
  O.OnProgress = [&](const Progress &Now) { First = Now.Seconds; };
  auto S = solve(hardGrid(7), O);
  ASSERT_TRUE(bool(S));
  EXPECT_EQ(S->Why, StopReason::Timeout);
  EXPECT_GE(First, 2e6);
}

TEST(Solve, StopsWhenAskedTo) {
  std::atomic<bool> Stop{false};
  SolveOptions O;
  O.TimeoutSeconds = 1e6;
  O.Stop = &Stop;
  O.OnProgress = [&](const Progress &Now) { Stop = Now.Best.has_value(); };
  auto S = solve(hardGrid(5), O);
  ASSERT_TRUE(S && S->Best);
  EXPECT_EQ(S->Why, StopReason::Interrupted);
}

TEST(Solve, RefusesInvalidProblems) {
  Problem P = hardGrid(6);
  P.Nodes[3].Live = {5, 4};
  auto S = solve(P, {});
  ASSERT_FALSE(S);
  EXPECT_EQ(S.error().Message,
            "nodes.intervals[3]: expected 0 <= begin <= end, got [5, 4]");
}

TEST(Solve, EmptyProblem) {
  auto S = solve(Problem{}, {});
  ASSERT_TRUE(S && S->Best);
  EXPECT_EQ(S->Why, StopReason::Optimal);
  EXPECT_TRUE(S->Best->empty());
  EXPECT_EQ(S->Total, 0);
}

TEST(Solve, NearestMissNamesTimeAndNodes) {
  Problem P;
  P.Nodes = {{{0, 10}, {1, 2}, {9, 5}},
             {{4, 6}, {1, 2}, {8, 7}},
             {{20, 30}, {1}, {3}}};
  P.UsageLimit = 11;
  auto S = solve(P, {});
  ASSERT_TRUE(bool(S));
  EXPECT_EQ(S->Why, StopReason::Infeasible);
  EXPECT_FALSE(S->Explanation.empty());
  ASSERT_TRUE(S->Miss);
  EXPECT_EQ(S->Miss->Time, 4);
  EXPECT_EQ(S->Miss->Excess, 1);
  EXPECT_EQ(S->Miss->Nodes, (std::vector<uint32_t>{1, 0}));
}

TEST(Solve, ContradictingEdgesAreInfeasible) {
  Problem P;
  P.Nodes = {{{0, 1}, {0, 0}, {0, 0}}, {{0, 1}, {0, 0}, {0, 0}}};
  P.Edges = {{{0, 1}, {0, InfiniteCost, InfiniteCost, 0}},
             {{0, 1}, {InfiniteCost, 0, 0, InfiniteCost}}};
  auto S = solve(P, {});
  ASSERT_TRUE(bool(S));
  EXPECT_EQ(S->Why, StopReason::Infeasible);
  EXPECT_EQ(S->LowerBound, InfiniteCost);
}

} // namespace
} // namespace heddle::solver
