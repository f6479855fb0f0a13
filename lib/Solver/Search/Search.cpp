//===- Search.cpp - Large-neighbourhood search ----------------------------===//

#include "Search/Search.h"
#include "Bound/Ascent.h"
#include "Exact/Exact.h"
#include "Search/Recombination.h"
#include "Search/Submodel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle::solver {

namespace {

void addCost(Candidate &c, Cost entry) {
  if (entry < kInfiniteCost)
    c.total = addCosts(c.total, entry);
  else
    ++c.forbidden;
}

void scoreCost(const Model &m, Candidate &c) {
  c.total = m.constant;
  c.forbidden = 0;
  for (size_t v = 0; v < m.vars.size(); ++v)
    addCost(c, m.vars[v].unary[c.x[v]]);
  for (const Pair &p : m.pairs)
    addCost(c, PairView(m, p, p.a)(c.x[p.a], c.x[p.b]));
}

double overuse(const Model &m, const std::vector<Usage> &used) {
  double sum = 0;
  for (size_t t = 0; t < used.size(); ++t)
    if (used[t] > m.capacity[t])
      sum += static_cast<double>(used[t] - m.capacity[t]);
  return sum;
}

} // namespace

void score(const Model &m, Candidate &c) {
  scoreCost(m, c);
  c.overuse = overuse(m, usageOf(m, c.x));
}

Search::Search(const CostTables &tables, uint64_t seed)
    : tables(tables), m(tables.getModel()), part(tables), whole(tables),
      r(seed), inRegion(m.vars.size(), 0), extra(tables.valueCount(), 0) {}

/// Solves the neighbourhood that `engine` has planned at the given prices, and
/// updates `c`. Sets `used` to the usage of `c`.
void Search::solveAt(Elimination &engine, const std::vector<double> &prices,
                     Candidate &c) {
  priceSums.assign(prices.size() + 1, 0);
  for (size_t t = 0; t < prices.size(); ++t)
    priceSums[t + 1] = priceSums[t] + prices[t];
  for (int32_t v : engine.getMembers()) {
    double *row = extra.data() + tables.getOffset(v);
    std::fill(row, row + m.vars[v].size(), 0.0);
    for (const Load &l : m.vars[v].loads) {
      double perUnit = priceSums[l.end] - priceSums[l.begin];
      if (perUnit > 0)
        for (size_t s = 0; s < l.amount.size(); ++s)
          row[s] += perUnit * static_cast<double>(l.amount[s]);
    }
  }
  engine.solve(extra, c.x);
  scoreCost(m, c);
  used = usageOf(m, c.x);
  c.overuse = overuse(m, used);
  work += engine.getWork() + static_cast<double>(m.pairs.size()) * 2;
}

void Search::planWhole() {
  // A variable without a choice would only make tables larger.
  std::vector<int32_t> all;
  for (size_t v = 0; v < m.vars.size(); ++v)
    if (hasChoice(static_cast<int32_t>(v)))
      all.push_back(static_cast<int32_t>(v));
  whole.plan(all, maxTable, maxWhole, r);
  replan = false;
  work += static_cast<double>(m.vars.size()) * 200;
}

void Search::construct(Candidate &c, const std::vector<double> &prices,
                       double quota, const std::function<bool()> &stop) {
  double until = work + quota;
  constexpr int kTries = 16, kTriesPerPlan = 4;
  varyPrices(prices);
  double growth = 1.02 + 0.5 * r.unit() * r.unit();
  next = c;
  for (int attempt = 0; attempt < kTries && work < until && !stop();
       ++attempt) {
    if (attempt % kTriesPerPlan == 0)
      planWhole();
    solveAt(whole, local, next);
    if (next.betterThan(c))
      c = next;
    if (next.isFeasible())
      return;
    raisePrices(growth, 0.02);
    growth *= 1.05;
  }
}

void Search::growRegion(int32_t seed, size_t size) {
  if (inRegion[seed])
    return;
  size_t first = region.size(), limit = first + size;
  inRegion[seed] = 1;
  region.push_back(seed);
  for (size_t next = first; next < region.size() && region.size() < limit;
       ++next) {
    // Nearly breadth first, but with some chance, so that two regions that
    // grow from the same seed differ.
    size_t ahead = std::min<size_t>(region.size() - next, 8);
    std::swap(region[next], region[next + r.below(ahead)]);
    for (const auto &n : tables.getNeighbors(region[next]))
      if (!inRegion[n.var] && r.below(10) < 8) {
        inRegion[n.var] = 1;
        region.push_back(n.var);
      }
  }
}

void Search::chooseRegion(size_t size) {
  region.clear();
  size_t count = m.vars.size();
  if (size >= count) {
    region.resize(count);
    std::iota(region.begin(), region.end(), 0);
    return;
  }
  size_t seeds = 1 + r.below(4);
  for (size_t i = 0; i < seeds; ++i)
    growRegion(static_cast<int32_t>(r.below(count)), 1 + size / seeds);
  for (int32_t v : region)
    inRegion[v] = 0;
}

/// Sets `local` to prices near the given ones, at random.
void Search::varyPrices(const std::vector<double> &prices) {
  double factor = std::exp((r.unit() - 0.5) * 0.8);
  local = prices;
  for (double &p : local)
    p *= factor * (0.9 + 0.2 * r.unit());
}

/// Multiplies the `local` prices of times at which the limit is exceeded by
/// `growth`. Makes them at least `leastShare` of the highest price.
void Search::raisePrices(double growth, double leastShare) {
  double highest = 1e-9;
  for (double p : local)
    highest = std::max(highest, p);
  for (size_t t = 0; t < used.size(); ++t)
    if (used[t] > m.capacity[t])
      local[t] = std::max(local[t] * growth, highest * leastShare);
}

/// Whether a search that stands at `current` may go on from `next`.
static bool acceptable(const Candidate &next, const Candidate &current,
                       Cost tolerance) {
  return next.isFeasible() && current.isFeasible()
             ? next.total <= current.total + tolerance
             : next.betterThan(current);
}

/// Solves a random neighbourhood by prices. Returns whether the best candidate
/// became better.
bool Search::tryPrices(Candidate &current, Candidate &best, Cost tolerance,
                       const std::vector<double> &prices) {
  chooseRegion(size_t(16) << r.below(6));
  std::erase_if(region, [&](int32_t v) { return !hasChoice(v); });
  part.plan(region, maxTable, maxTotal, r);
  work += static_cast<double>(region.size()) * 200;
  varyPrices(prices);
  next = current;
  for (int attempt = 0; attempt < 4; ++attempt) {
    solveAt(part, local, next);
    bool accept = acceptable(next, current, tolerance);
    if (accept)
      current = next;
    if (next.betterThan(best)) {
      best = next;
      return true;
    }
    if (accept || next.overuse == 0)
      return false;
    raisePrices(1.3, 0.1);
  }
  return false;
}

/// Solves everything but a cutset, at prices at which the result keeps the
/// limit and at prices at which it does not. Then mixes these results. Returns
/// whether the best candidate became better.
bool Search::tryAtOnce(Candidate &current, Candidate &best, Cost tolerance,
                       const std::vector<double> &prices,
                       const std::function<bool()> &stop) {
  if (replan || r.below(4) == 0)
    planWhole();
  varyPrices(prices);
  const Candidate before = current;
  std::vector<Labels> seen;
  bool keeps = false, breaks = false;
  next = current;
  for (int attempt = 0; attempt < 4 && !(keeps && breaks) && !stop();
       ++attempt) {
    solveAt(whole, local, next);
    seen.push_back(next.x);
    if (acceptable(next, current, tolerance))
      current = next;
    (next.overuse > 0 ? breaks : keeps) = true;
    if (next.overuse > 0)
      raisePrices(1.3, 0.1);
    else
      for (double &p : local)
        p *= 0.75;
  }
  if (before.isFeasible()) {
    Candidate mixed = before;
    std::vector<const Labels *> others;
    others.reserve(seen.size());
    for (const Labels &x : seen)
      others.push_back(&x);
    work += recombine(m, mixed, others, prices, stop);
    if (mixed.betterThan(before) && mixed.betterThan(current))
      current = std::move(mixed);
  }
  if (!current.betterThan(best))
    return false;
  best = current;
  return true;
}

/// Solves a small random neighbourhood with the limit itself. Returns whether
/// the best candidate became better.
bool Search::tryExactly(Candidate &current, Candidate &best,
                        const std::vector<double> &prices,
                        const std::function<bool()> &stop) {
  constexpr double kMaxEntries = 2e4;
  chooseRegion(static_cast<size_t>(exactSize * (0.5 + r.unit())));
  std::erase(region, pinned);
  used = usageOf(m, current.x);
  Submodel sub = fixOutside(m, region, current.x, used, prices);
  TablePool pool(sub.m);
  Ascent climber(sub.m, pool, {sub.prices, {}});
  auto target = static_cast<double>(sub.before);
  double entries = static_cast<double>(m.capacity.size() + m.vars.size());
  for (const Pair &p : sub.m.pairs)
    entries += static_cast<double>(p.table.size());
  bool proven = climber.prove(target, entries * 400, stop);
  work += climber.getWork() + entries * 4;
  if (proven)
    return false;
  ExactResult found = solveExactly(sub.m, climber.getBest().reducedCosts(),
                                   nullptr, sub.before, kMaxEntries, 0, stop);
  work += found.work * 30;
  exactSize *= found.complete ? 1.02 : 0.96;
  exactSize = std::clamp(exactSize, 4.0,
                         std::max(4.0, static_cast<double>(m.vars.size())));
  if (!found.best)
    return false;
  for (size_t i = 0; i < region.size(); ++i)
    current.x[region[i]] = sub.labelOf[i][(*found.best)[i]];
  score(m, current);
  if (!current.betterThan(best))
    return false;
  best = current;
  return true;
}

void Search::improveAtOnce(Candidate &c, const std::vector<double> &prices,
                           double quota, const std::function<bool()> &stop) {
  double until = work + quota;
  Candidate current = c;
  while (work < until && !stop())
    tryAtOnce(current, c, 0, prices, stop);
}

void Search::improve(Candidate &c, const std::vector<double> &prices,
                     double quota, Cost tolerance,
                     const std::function<bool()> &stop) {
  double until = work + quota;
  Candidate current = c;
  while (work < until && !stop()) {
    double ofPrices = byPrices.gain / byPrices.work;
    double ofExact = byExact.gain / byExact.work;
    double chance = std::clamp(ofExact / (ofExact + ofPrices), 0.1, 0.9);
    bool exactly = current.isFeasible() && r.unit() < chance;
    double before = work;
    bool better = exactly ? tryExactly(current, c, prices, stop)
                  : r.below(4) == 0
                      ? tryAtOnce(current, c, tolerance, prices, stop)
                      : tryPrices(current, c, tolerance, prices);
    Merit &kind = exactly ? byExact : byPrices;
    kind.gain = 0.99 * kind.gain + (better ? 1 : 0.002);
    kind.work = 0.99 * kind.work + (work - before);
  }
}

} // namespace heddle::solver
