//===- ProblemTest.cpp - Validation and evaluation ------------------------===//

#include "heddle/Solver/Problem.h"

#include <gtest/gtest.h>
#include <limits>

namespace heddle::solver {
namespace {

/// Returns a problem of two nodes that are live together only at time 1.
Problem twoNodes() {
  Problem p;
  p.nodes = {{{0, 2}, {1, 10}, {100, 20}}, {{1, 3}, {2, 20, 200}, {7, 8, 9}}};
  p.edges = {{{0, 1}, {1000, 2000, 3000, 4000, 5000, 6000}}};
  p.usageLimit = 107;
  return p;
}

TEST(Evaluate, AddsNodesAndRowMajorEdges) {
  auto v = evaluate(twoNodes(), {1, 2});
  ASSERT_TRUE(bool(v));
  EXPECT_EQ(v->total, 10 + 200 + 6000);
  EXPECT_EQ(v->peakUsage, 29);
  EXPECT_EQ(v->peakTime, 1);
  EXPECT_TRUE(v->isFeasible());
}

TEST(Evaluate, IntervalsAreHalfOpen) {
  Problem p = twoNodes();
  EXPECT_TRUE(evaluate(p, {0, 0})->withinLimit);  // 107 at time 1
  EXPECT_FALSE(evaluate(p, {0, 1})->withinLimit); // 108 at time 1
  p.nodes[1].live = {2, 3};                       // never live together
  EXPECT_TRUE(evaluate(p, {0, 1})->withinLimit);
  EXPECT_EQ(evaluate(p, {0, 1})->peakUsage, 100);
  p.nodes[0].live = {2, 2}; // never live
  EXPECT_EQ(evaluate(p, {0, 1})->peakUsage, 8);
}

TEST(Evaluate, CostsSaturate) {
  Problem p = twoNodes();
  p.nodes[0].costs[0] = std::numeric_limits<int64_t>::max();
  p.nodes[1].costs[0] = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(evaluate(p, {0, 0})->total, kInfiniteCost);
  EXPECT_FALSE(evaluate(p, {0, 0})->isFeasible());
  p.nodes[0].costs[0] = p.nodes[1].costs[0] = kInfiniteCost / 2;
  EXPECT_FALSE(evaluate(p, {0, 0})->isFeasible());
}

TEST(Evaluate, RefusesWrongAssignments) {
  EXPECT_EQ(llvm::toString(evaluate(twoNodes(), {0}).takeError()),
            "assignment: expected 2 entries, one per node, got 1");
  EXPECT_EQ(llvm::toString(evaluate(twoNodes(), {0, 3}).takeError()),
            "assignment[1]: expected a strategy below 3, got 3");
  EXPECT_EQ(llvm::toString(evaluate(twoNodes(), {-1, 0}).takeError()),
            "assignment[0]: expected a strategy below 2, got -1");
}

TEST(Validate, NamesTheField) {
  auto message = [](auto spoil) {
    Problem p = twoNodes();
    spoil(p);
    return llvm::toString(validate(p));
  };
  EXPECT_EQ(message([](Problem &) {}), "");
  EXPECT_EQ(message([](Problem &p) {
              p.nodes[1].live = {3, 1};
            }),
            "nodes.intervals[1]: expected 0 <= begin <= end, got [3, 1]");
  EXPECT_EQ(message([](Problem &p) {
              p.nodes[1].live = {-1, 1};
            }),
            "nodes.intervals[1]: expected 0 <= begin <= end, got [-1, 1]");
  EXPECT_EQ(message([](Problem &p) { p.nodes[0] = {}; }),
            "nodes.costs[0]: expected at least one strategy, got none");
  EXPECT_EQ(message([](Problem &p) { p.nodes[0].usages.pop_back(); }),
            "nodes.usages[0]: expected 2 entries as in nodes.costs, got 1");
  EXPECT_EQ(message([](Problem &p) { p.nodes[0].costs[1] = -5; }),
            "nodes.costs[0][1]: expected a cost of at least 0, got -5");
  EXPECT_EQ(message([](Problem &p) { p.nodes[0].usages[1] = -5; }),
            "nodes.usages[0][1]: expected a usage of at least 0, got -5");
  EXPECT_EQ(message([](Problem &p) { p.edges[0].nodes[1] = 2; }),
            "edges.nodes[0]: expected a node below 2, got 2");
  EXPECT_EQ(message([](Problem &p) { p.edges[0].nodes.clear(); }),
            "edges.nodes[0]: expected at least one node, got none");
  EXPECT_EQ(message([](Problem &p) { p.edges[0].costs.pop_back(); }),
            "edges.costs[0]: expected 6 entries, the product of its nodes' "
            "strategies, got 5");
  EXPECT_EQ(message([](Problem &p) { p.edges[0].costs[3] = -1; }),
            "edges.costs[0][3]: expected a cost of at least 0, got -1");
  EXPECT_EQ(message([](Problem &p) { p.usageLimit = -1; }),
            "usage_limit: expected at least 0, got -1");
  EXPECT_EQ(message([](Problem &p) {
              p.nodes[0].usages[0] = std::numeric_limits<int64_t>::max();
            }),
            "nodes.usages: expected sums that fit 64 bits, got an overflow at "
            "time 1");
}

} // namespace
} // namespace heddle::solver
