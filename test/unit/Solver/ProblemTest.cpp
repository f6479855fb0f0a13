//===- ProblemTest.cpp - Validation and evaluation ------------------------===//

#include "heddle/Solver/Problem.h"

#include <gtest/gtest.h>
#include <limits>

namespace heddle::solver {
namespace {

/// Two nodes that are both live at time 1 only.
Problem twoNodes() {
  Problem P;
  P.Nodes = {{{0, 2}, {1, 10}, {100, 20}}, {{1, 3}, {2, 20, 200}, {7, 8, 9}}};
  P.Edges = {{{0, 1}, {1000, 2000, 3000, 4000, 5000, 6000}}};
  P.UsageLimit = 107;
  return P;
}

TEST(Evaluate, AddsNodesAndRowMajorEdges) {
  auto V = evaluate(twoNodes(), {1, 2});
  ASSERT_TRUE(bool(V));
  EXPECT_EQ(V->Total, 10 + 200 + 6000);
  EXPECT_EQ(V->PeakUsage, 29);
  EXPECT_EQ(V->PeakTime, 1);
  EXPECT_TRUE(V->feasible());
}

TEST(Evaluate, IntervalsAreHalfOpen) {
  Problem P = twoNodes();
  EXPECT_TRUE(evaluate(P, {0, 0})->WithinLimit);  // 107 at time 1
  EXPECT_FALSE(evaluate(P, {0, 1})->WithinLimit); // 108 at time 1
  P.Nodes[1].Live = {2, 3};                       // apart
  EXPECT_TRUE(evaluate(P, {0, 1})->WithinLimit);
  EXPECT_EQ(evaluate(P, {0, 1})->PeakUsage, 100);
  P.Nodes[0].Live = {2, 2}; // never live
  EXPECT_EQ(evaluate(P, {0, 1})->PeakUsage, 8);
}

TEST(Evaluate, CostsSaturate) {
  Problem P = twoNodes();
  P.Nodes[0].Costs[0] = std::numeric_limits<int64_t>::max();
  P.Nodes[1].Costs[0] = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(evaluate(P, {0, 0})->Total, InfiniteCost);
  EXPECT_FALSE(evaluate(P, {0, 0})->feasible());
  P.Nodes[0].Costs[0] = P.Nodes[1].Costs[0] = InfiniteCost / 2;
  EXPECT_FALSE(evaluate(P, {0, 0})->feasible());
}

TEST(Evaluate, RefusesWrongAssignments) {
  EXPECT_EQ(evaluate(twoNodes(), {0}).error().Message,
            "assignment: expected 2 entries, one per node, got 1");
  EXPECT_EQ(evaluate(twoNodes(), {0, 3}).error().Message,
            "assignment[1]: expected a strategy below 3, got 3");
  EXPECT_FALSE(evaluate(twoNodes(), {-1, 0}));
}

TEST(Validate, NamesTheField) {
  auto Message = [](auto Spoil) {
    Problem P = twoNodes();
    Spoil(P);
    auto E = validate(P);
    return E ? E->Message : "";
  };
  EXPECT_EQ(Message([](Problem &) {}), "");
  EXPECT_EQ(Message([](Problem &P) {
              P.Nodes[1].Live = {3, 1};
            }),
            "nodes.intervals[1]: expected 0 <= begin <= end, got [3, 1]");
  EXPECT_EQ(Message([](Problem &P) {
              P.Nodes[1].Live = {-1, 1};
            }),
            "nodes.intervals[1]: expected 0 <= begin <= end, got [-1, 1]");
  EXPECT_EQ(Message([](Problem &P) { P.Nodes[0] = {}; }),
            "nodes.costs[0]: expected at least one strategy, got none");
  EXPECT_EQ(Message([](Problem &P) { P.Nodes[0].Usages.pop_back(); }),
            "nodes.usages[0]: expected 2 entries as in nodes.costs, got 1");
  EXPECT_EQ(Message([](Problem &P) { P.Nodes[0].Costs[1] = -5; }),
            "nodes.costs[0][1]: expected a cost of at least 0, got -5");
  EXPECT_EQ(Message([](Problem &P) { P.Nodes[0].Usages[1] = -5; }),
            "nodes.usages[0][1]: expected a usage of at least 0, got -5");
  EXPECT_EQ(Message([](Problem &P) { P.Edges[0].Nodes[1] = 2; }),
            "edges.nodes[0]: expected a node below 2, got 2");
  EXPECT_EQ(Message([](Problem &P) { P.Edges[0].Nodes.clear(); }),
            "edges.nodes[0]: expected at least one node, got none");
  EXPECT_EQ(Message([](Problem &P) { P.Edges[0].Costs.pop_back(); }),
            "edges.costs[0]: expected 6 entries, the product of its nodes' "
            "strategies, got 5");
  EXPECT_EQ(Message([](Problem &P) { P.Edges[0].Costs[3] = -1; }),
            "edges.costs[0][3]: expected a cost of at least 0, got -1");
  EXPECT_EQ(Message([](Problem &P) { P.UsageLimit = -1; }),
            "usage_limit: expected at least 0, got -1");
  EXPECT_EQ(Message([](Problem &P) {
              P.Nodes[0].Usages[0] = std::numeric_limits<int64_t>::max();
            }),
            "nodes.usages: expected sums that fit 64 bits, got an overflow at "
            "time 1");
}

} // namespace
} // namespace heddle::solver
