//===- SearchTest.cpp - Pinned variables and stopping of a search ---------===//

#include "Search/Search.h"
#include "RandomModel.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::solver;

namespace {

const std::function<bool()> never = [] { return false; };

/// A model and a feasible assignment.
struct Start {
  Model m;
  Candidate c;
};

Start randomStart(Random &r) {
  for (;;) {
    Start s{randomModel(r), {randomLabels(r)}};
    s.m.capacity = usageOf(s.m, s.c.x);
    score(s.m, s.c);
    if (s.c.isFeasible())
      return s;
  }
}

TEST(Search, LeavesAPinnedVariableAlone) {
  Random r(1);
  const std::vector<double> prices(kTimes, 1.0);
  int moved = 0;
  for (int round = 0; round < 60; ++round) {
    Start s = randomStart(r);
    TablePool pool(s.m);
    CostTables tables(s.m, pool);
    Search pinned(tables, r.next()), free(tables, r.next());
    auto v = static_cast<int32_t>(r.below(kVariableCount));
    int32_t value = s.c.x[v];
    Candidate c = s.c, other = s.c;
    pinned.pin(v);
    pinned.construct(c, prices, 1e5, never);
    EXPECT_EQ(c.x[v], value);
    pinned.improve(c, prices, 1e5, 0, never);
    EXPECT_EQ(c.x[v], value);
    EXPECT_FALSE(s.c.betterThan(c));
    free.improve(other, prices, 1e5, 0, never);
    moved += other.x[v] != value;
  }
  EXPECT_GT(moved, 10);
}

TEST(Search, StopsAtOnce) {
  Random r(2);
  Start s = randomStart(r);
  TablePool pool(s.m);
  CostTables tables(s.m, pool);
  Search engine(tables, 1);
  Candidate c = s.c;
  const std::vector<double> prices(kTimes, 1.0);
  auto now = [] { return true; };
  engine.improve(c, prices, 1e18, 0, now);
  engine.improveAtOnce(c, prices, 1e18, now);
  engine.construct(c, prices, 1e18, now);
  EXPECT_EQ(c.x, s.c.x);
}

} // namespace
