//===- RecombinationTest.cpp - The best mixture against all mixtures ------===//

#include "Search/Recombination.h"
#include "RandomModel.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::solver;

namespace {

/// Returns the first variable of each variable's component. Components
/// connect variables whose value in `x` differs from a value in `others`.
/// Returns -1 for all other variables.
std::vector<int32_t> componentsOf(const Model &m, const Labels &x,
                                  const std::vector<Labels> &others) {
  std::vector<int32_t> root(kVariableCount, -1);
  for (int32_t v = 0; v < kVariableCount; ++v)
    for (const Labels &o : others)
      if (o[v] != x[v])
        root[v] = v;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Pair &p : m.pairs) {
      int32_t &a = root[p.a], &b = root[p.b];
      if (a < 0 || b < 0 || a == b)
        continue;
      a = b = std::min(a, b);
      changed = true;
    }
  }
  return root;
}

/// Returns the least cost of all feasible mixtures: each component takes its
/// values from `x` or from one of `others`.
Cost leastOfMixtures(const Model &m, const Labels &x,
                     const std::vector<Labels> &others) {
  std::vector<int32_t> root = componentsOf(m, x, others), roots;
  for (int32_t v = 0; v < kVariableCount; ++v)
    if (root[v] == v)
      roots.push_back(v);
  size_t ways = others.size() + 1, count = 1;
  for (size_t i = 0; i < roots.size(); ++i)
    count *= ways;
  Cost least = kInfiniteCost;
  for (size_t number = 0; number < count; ++number) {
    Candidate mixed{x};
    size_t rest = number;
    for (int32_t own : roots) {
      size_t way = rest % ways;
      rest /= ways;
      for (int32_t v = 0; v < kVariableCount && way > 0; ++v)
        if (root[v] == own)
          mixed.x[v] = others[way - 1][v];
    }
    score(m, mixed);
    if (mixed.isFeasible())
      least = std::min(least, mixed.total);
  }
  return least;
}

TEST(Recombination, FindsTheBestMixture) {
  Random r(1);
  int improved = 0, bound = 0;
  for (int round = 0; round < 300; ++round) {
    Model m = randomModel(r);
    Candidate c{randomLabels(r)};
    // Capacities equal the usage of the first assignment, or are a little
    // larger.
    std::vector<Usage> used = usageOf(m, c.x);
    for (int t = 0; t < kTimes; ++t)
      m.capacity[t] = used[t] + static_cast<Usage>(r.below(6));
    score(m, c);
    if (!c.isFeasible())
      continue;
    std::vector<Labels> others(1 + r.below(3));
    std::vector<const Labels *> pointers;
    for (Labels &x : others) {
      // Half of the variables keep their values, so there are several
      // components.
      x = c.x;
      Labels fresh = randomLabels(r);
      for (int v = 0; v < kVariableCount; ++v)
        if (r.below(2))
          x[v] = fresh[v];
      pointers.push_back(&x);
    }
    Cost before = c.total, least = leastOfMixtures(m, c.x, others);
    Model free = m;
    std::fill(free.capacity.begin(), free.capacity.end(), Usage(1) << 40);
    bound += leastOfMixtures(free, c.x, others) < least;
    recombine(m, c, pointers, std::vector<double>(kTimes, 1.0),
              [] { return false; });
    EXPECT_TRUE(c.isFeasible());
    EXPECT_EQ(c.total, least) << "round " << round << ", before " << before;
    Candidate again{c.x};
    score(m, again);
    EXPECT_EQ(again.total, c.total);
    improved += c.total < before;
  }
  // Many rounds must have an improvement to find, and a capacity that binds.
  EXPECT_GT(improved, 50);
  EXPECT_GT(bound, 30);
}

/// An assignment and others that share about half of its values or more.
struct Family {
  Model m;
  Candidate c;
  std::vector<Labels> others;
};

/// Returns a family whose capacities equal the usage of its first assignment if
/// `tight`, else never bind.
Family randomFamily(Random &r, bool tight) {
  Family f{randomModel(r), {randomLabels(r)}, {}};
  f.m.capacity.assign(kTimes, Usage(1) << 40);
  if (tight)
    f.m.capacity = usageOf(f.m, f.c.x);
  score(f.m, f.c);
  for (int i = 0; i < 3; ++i) {
    Labels &x = f.others.emplace_back(f.c.x), fresh = randomLabels(r);
    for (int v = 0; v < kVariableCount; ++v)
      if (r.below(2))
        x[v] = fresh[v];
  }
  return f;
}

const std::vector<double> atOne(kTimes, 1.0);

TEST(Recombination, TakesTheCheapestWhereNothingBinds) {
  Random r(3);
  int improved = 0;
  for (int round = 0; round < 50; ++round) {
    Family f = randomFamily(r, false);
    if (!f.c.isFeasible())
      continue;
    Cost before = f.c.total, least = leastOfMixtures(f.m, f.c.x, f.others);
    std::vector<const Labels *> pointers;
    for (const Labels &x : f.others)
      pointers.push_back(&x);
    recombine(f.m, f.c, pointers, atOne, [] { return false; });
    EXPECT_EQ(f.c.total, least);
    improved += least < before;
  }
  EXPECT_GT(improved, 5);
}

TEST(Recombination, AllIsNearlyAlwaysAsGoodAsTheBestOne) {
  Random r(4);
  int improved = 0, worse = 0;
  for (int round = 0; round < 200; ++round) {
    Family f = randomFamily(r, true);
    if (!f.c.isFeasible())
      continue;
    Cost before = f.c.total, least = before;
    for (const Labels &x : f.others)
      least = std::min(least, leastOfMixtures(f.m, f.c.x, {x}));
    Candidate none = f.c, stopped = f.c;
    EXPECT_EQ(
        recombineAll(f.m, none, f.others, atOne, 0, r, [] { return false; }),
        0);
    EXPECT_EQ(none.x, f.c.x);
    recombineAll(f.m, stopped, f.others, atOne, 1e9, r, [] { return true; });
    EXPECT_EQ(stopped.x, f.c.x);
    double work =
        recombineAll(f.m, f.c, f.others, atOne, 1e9, r, [] { return false; });
    EXPECT_GT(work, 0);
    EXPECT_TRUE(f.c.isFeasible());
    EXPECT_LE(f.c.total, before);
    // Taking one mixture first may exclude a better mixture with another
    // assignment.
    worse += f.c.total > least;
    improved += least < before;
  }
  EXPECT_GT(improved, 20);
  EXPECT_LT(worse, improved / 10);
}

TEST(Recombination, LeavesInfeasibleAssignmentsAlone) {
  Random r(2);
  Model m = randomModel(r);
  m.capacity.assign(kTimes, -1);
  Candidate c{randomLabels(r)};
  score(m, c);
  Labels before = c.x;
  recombineAll(m, c, {randomLabels(r), randomLabels(r)},
               std::vector<double>(kTimes, 1.0), 1e9, r, [] { return false; });
  EXPECT_EQ(c.x, before);
}

} // namespace
