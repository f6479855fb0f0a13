//===- AscentTest.cpp - Bounds, guesses and samples of small models -------===//

#include "Bound/Ascent.h"
#include "RandomModel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace heddle;
using namespace heddle::solver;

namespace {

const std::function<bool()> never = [] { return false; };

/// Returns the least cost of all feasible assignments.
Cost leastCost(const Model &m) {
  Cost least = kInfiniteCost;
  Labels x(m.vars.size(), 0);
  for (;;) {
    if (withinCapacity(m, usageOf(m, x)))
      least = std::min(least, costOf(m, x));
    size_t v = 0;
    while (v < x.size() && ++x[v] == m.vars[v].size())
      x[v++] = 0;
    if (v == x.size())
      return least;
  }
}

/// Returns the first eight variables of a random model, few enough to try all
/// assignments.
Model smallModel(Random &r) {
  constexpr int32_t kCount = 8;
  Model whole = randomModel(r), m;
  m.vars.assign(whole.vars.begin(), whole.vars.begin() + kCount);
  for (Variable &v : m.vars)
    v.pairs.clear();
  for (const Pair &p : whole.pairs) {
    if (p.a >= kCount || p.b >= kCount)
      continue;
    for (int32_t v : {p.a, p.b})
      m.vars[v].pairs.push_back(static_cast<int32_t>(m.pairs.size()));
    m.pairs.push_back(p);
  }
  m.capacity.assign(kTimes, 20 + static_cast<Usage>(r.below(20)));
  return m;
}

/// A small model with a feasible assignment, and its least cost.
struct Solved {
  Model m;
  double least;
};

Solved solvedModel(Random &r) {
  for (;;) {
    Model m = smallModel(r);
    if (Cost least = leastCost(m); least < kInfiniteCost)
      return {std::move(m), static_cast<double>(least)};
  }
}

/// Returns a chain of variables without capacities. On it message passing is
/// exact.
Model chain(Random &r, int32_t length) {
  Model m;
  m.vars.resize(length);
  for (Variable &v : m.vars)
    for (int s = 0; s < 4; ++s)
      v.unary.push_back(static_cast<Cost>(r.below(1000)));
  for (int32_t a = 0; a + 1 < length; ++a) {
    Pair p{a, a + 1, {}};
    for (int i = 0; i < 16; ++i)
      p.table.push_back(static_cast<Cost>(r.below(1000)));
    m.vars[a].pairs.push_back(a);
    m.vars[a + 1].pairs.push_back(a);
    m.pairs.push_back(p);
  }
  return m;
}

TEST(Ascent, ProvesNoMoreThanIsTrue) {
  Random r(1);
  int proven = 0;
  for (int round = 0; round < 200; ++round) {
    auto [m, target] = solvedModel(r);
    TablePool pool(m);
    Ascent climber(m, pool, {});
    EXPECT_FALSE(climber.prove(target + 1, 2e5, never)) << "round " << round;
    EXPECT_LE(climber.getBound(), target);
    proven += climber.prove(target, 2e5, never);
  }
  EXPECT_GT(proven, 20);
}

TEST(Ascent, LowersPricesThatAreTooHigh) {
  Random r(5);
  int higher = 0;
  for (int round = 0; round < 40; ++round) {
    auto [m, target] = solvedModel(r);
    TablePool pool(m);
    Ascent climber(m, pool, {std::vector<double>(kTimes, 50.0), {}});
    double first = climber.getBound(), last = first;
    double firstPrice = climber.getBest().getPrices()[0];
    for (int i = 0; i < 20; ++i) {
      climber.lowerPrices();
      climber.climb(target, 100 * climber.getPassWork(), never);
      EXPECT_GE(climber.getBound(), last);
      EXPECT_LE(climber.getBound(), target);
      last = climber.getBound();
    }
    higher += last > first && climber.getBest().getPrices()[0] < firstPrice;
  }
  EXPECT_GT(higher, 20);
}

TEST(Ascent, VisitsItsQuota) {
  Random r(2);
  Model m = smallModel(r);
  TablePool pool(m);
  Ascent climber(m, pool, {});
  double ofPass = climber.getWork(), until = 0; // construction runs one pass
  for (int call = 0; call < 5000; ++call) {
    climber.climb(1e6, 0.3 * ofPass, never);
    until += 0.3 * ofPass;
    EXPECT_LT(climber.getWork(), until + ofPass + 1) << "call " << call;
  }
  EXPECT_GE(climber.getWork(), until);
  double before = climber.getWork();
  climber.climb(1e6, 1e9, [] { return true; });
  EXPECT_EQ(climber.getWork(), before);
}

TEST(Dual, SamplesTheOptimumOfAChain) {
  Random r(3);
  Model m = chain(r, 30);
  TablePool pool(m);
  Dual d(m, pool, {});
  for (int i = 0; i < 50; ++i)
    d.pass();
  Cost best = costOf(m, d.getGuess());
  EXPECT_NEAR(d.getBound(), static_cast<double>(best), 1e-3);
  EXPECT_EQ(costOf(m, d.sample(0, 1, r)), best);
  std::set<Labels> different;
  for (int i = 0; i < 20; ++i) {
    Labels x = d.sample(300, 1, r);
    EXPECT_GE(costOf(m, x), best);
    different.insert(x);
  }
  EXPECT_GT(different.size(), 10u);
}

TEST(Dual, SamplesUseLessWhereUsageCostsMore) {
  Random r(4);
  int less = 0, more = 0;
  for (int round = 0; round < 50; ++round) {
    Model m = smallModel(r);
    TablePool pool(m);
    Dual d(m, pool, {std::vector<double>(kTimes, 3.0), {}});
    for (int i = 0; i < 20; ++i)
      d.pass();
    auto usageAt = [&](double factor) {
      Usage sum = 0;
      for (Usage u : usageOf(m, d.sample(0, factor, r)))
        sum += u;
      return sum;
    };
    Usage cheap = usageAt(0.25), dear = usageAt(4);
    less += dear < cheap;
    more += dear > cheap;
  }
  EXPECT_GT(less, 40);
  EXPECT_LT(more, 3);
}

TEST(Dual, MeasuresRoundingByWhatCancels) {
  // The values of each variable differ only by messages of 10^15 that cancel.
  Model m;
  m.vars.resize(2);
  m.vars[0] = {{0, 0}, {}, {0}};
  m.vars[1] = {{0, 0}, {}, {0}};
  m.pairs.push_back({0, 1, {1, 1, 1, 1}});
  TablePool pool(m);
  Dual plain(m, pool, {});
  Dual huge(m, pool, {{}, {{1e15, 1e15, -1e15, -1e15}}});
  plain.pass();
  EXPECT_LT(plain.getRounding(), 1e-5);
  EXPECT_GT(huge.getRounding(), 1);
}

} // namespace
