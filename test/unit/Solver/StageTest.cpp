//===- StageTest.cpp - The exploited assignment over many rounds ----------===//

#include "Search/Stage.h"
#include "Grid.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::solver;

namespace {

/// Returns a model of variables with three values on a grid. If `forbids`,
/// every second entry of half of the tables is infinite, so that most samples
/// are not feasible.
Model grid(Random &r, int32_t side, bool forbids) {
  Model m;
  m.vars.resize(side * side);
  m.capacity.assign(4, 0);
  for (Variable &v : m.vars) {
    Load l{static_cast<int32_t>(r.below(3)), 4, {}};
    for (int s = 0; s < 3; ++s) {
      v.unary.push_back(static_cast<Cost>(r.below(100000)));
      l.amount.push_back(static_cast<Usage>(r.below(1000)));
    }
    for (int32_t t = l.begin; t < l.end; ++t)
      m.capacity[t] += (l.amount[0] + l.amount[1] + l.amount[2]) / 4;
    v.loads.push_back(std::move(l));
  }
  joinGrid(side, [&](int32_t a, int32_t b) {
    Pair p{a, b, {}};
    bool strict = forbids && r.below(2);
    for (int i = 0; i < 9; ++i)
      p.table.push_back(strict && i % 2 ? kInfiniteCost
                                        : static_cast<Cost>(r.below(100000)));
    for (int32_t v : {a, b})
      m.vars[v].pairs.push_back(static_cast<int32_t>(m.pairs.size()));
    m.pairs.push_back(std::move(p));
  });
  return m;
}

/// Runs rounds until the exploited assignment has left the best one and
/// returned to it.
void run(bool forbids, int32_t side) {
  auto never = [] { return false; };
  Random r(1);
  Stage s(grid(r, side, forbids), 1, {});
  s.begin(1e9, kInfiniteCost, never);
  bool away = false, returned = false;
  for (int round = 0; round < 80 && !returned; ++round) {
    Candidate before = s.getBest();
    auto target = static_cast<double>(s.getBest().total);
    s.round(target, s.isFeasible() ? s.getBest().total : kInfiniteCost, 2,
            never);
    EXPECT_FALSE(before.betterThan(s.getBest())) << "round " << round;
    EXPECT_FALSE(s.getExploited().betterThan(s.getBest())) << "round " << round;
    Candidate again{s.getBest().x};
    score(s.getModel(), again);
    EXPECT_EQ(again.total, s.getBest().total);
    EXPECT_LE(s.getBound(), static_cast<double>(s.getBest().total) + 1);
    bool now = s.getBest().betterThan(s.getExploited());
    returned = away && !now;
    away = now;
  }
  EXPECT_TRUE(s.isFeasible());
  EXPECT_TRUE(returned);
}

TEST(Stage, SetsOutAnewAndReturnsToTheBest) { run(false, 18); }

TEST(Stage, ReturnsFromInfeasibleBeginnings) { run(true, 18); }

} // namespace
