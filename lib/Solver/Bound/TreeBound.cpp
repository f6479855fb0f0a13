//===- TreeBound.cpp - The exact bound of narrow models -------------------===//

#include "Bound/TreeBound.h"
#include "Bound/EliminationOrder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace heddle::solver {

TreeBound::TreeBound(const CostTables &tables, const TablePool &pool,
                     double maxEntries)
    : tables(tables), pool(pool), m(tables.getModel()), engine(tables),
      best(-std::numeric_limits<double>::infinity()),
      bestPrices(m.capacity.size(), 0), bestLabels(m.vars.size(), 0),
      x(m.vars.size(), 0) {
  std::vector<int32_t> all(m.vars.size());
  std::iota(all.begin(), all.end(), 0);
  Random unused(0);
  // The bound holds only if no variable is left out.
  engine.plan(all, maxEntries, maxEntries, unused);
  usable = engine.getMembers().size() == all.size();
}

/// Returns the bound at some prices. Sets `x` to the labels that attain it and
/// `excess` to their usage beyond the capacities.
double TreeBound::evaluate(const std::vector<double> &prices) {
  std::vector<double> extra = priceValues(m, prices);
  double value = engine.solve(extra, x) + static_cast<double>(m.constant);
  double size = std::abs(value) + static_cast<double>(m.constant) + 1e-6;
  std::vector<Usage> used = usageOf(m, x);
  excess.resize(used.size());
  for (size_t t = 0; t < used.size(); ++t) {
    value -= prices[t] * static_cast<double>(m.capacity[t]);
    size += prices[t] * std::abs(static_cast<double>(m.capacity[t]));
    excess[t] = static_cast<double>(used[t] - m.capacity[t]);
  }
  work += engine.getWork();
  if (withinCapacity(m, used))
    if (Cost total = costOf(m, x); total < feasibleCost) {
      feasible = x;
      feasibleCost = total;
    }
  double margin = size * 1e-11;
  if (value - margin > best) {
    best = value - margin;
    rounding = margin;
    bestPrices = prices;
    bestLabels = x;
  }
  return value;
}

/// Finds the best price of a single time. The bound is a concave function of
/// the price. Evaluates it where the tangents on either side of its maximum
/// meet, until the maximum is found (Kelley's cutting planes).
void TreeBound::climbOne(double start, const std::function<bool()> &stop) {
  double low = 0, high = std::max(start, 1e-6);
  double valueLow = evaluate({low}), slopeLow = excess[0];
  if (slopeLow <= 0)
    return;
  double valueHigh = evaluate({high}), slopeHigh = excess[0];
  while (slopeHigh > 0 && high < 1e15 && !stop()) {
    low = high, valueLow = valueHigh, slopeLow = slopeHigh;
    high *= 4;
    valueHigh = evaluate({high}), slopeHigh = excess[0];
  }
  for (int step = 0; step < 100 && slopeHigh < 0 && !stop(); ++step) {
    double next = (valueHigh - valueLow + slopeLow * low - slopeHigh * high) /
                  (slopeLow - slopeHigh);
    if (!(next > low && next < high))
      return;
    double promise = valueLow + slopeLow * (next - low);
    double value = evaluate({next}), slope = excess[0];
    if (slope == 0 || promise - value < 1e-12 * std::abs(value))
      return;
    if (slope > 0)
      low = next, valueLow = value, slopeLow = slope;
    else
      high = next, valueHigh = value, slopeHigh = slope;
  }
}

/// Searches for the best prices of several times by steps along the excess (a
/// subgradient of the bound). Halves the steps when they fail.
void TreeBound::climbMany(const std::vector<double> &start, double target,
                          const std::function<bool()> &stop) {
  std::vector<double> now = start;
  double scale = 1;
  int sinceBetter = 0;
  for (int step = 0; step < 300 && scale > 1e-4 && !stop(); ++step) {
    double before = best, value = evaluate(now), norm = 0;
    sinceBetter = best > before ? 0 : sinceBetter + 1;
    if (sinceBetter > 6) {
      scale /= 2;
      sinceBetter = 0;
      now = bestPrices;
      continue;
    }
    for (size_t t = 0; t < now.size(); ++t)
      if (excess[t] > 0 || now[t] > 0)
        norm += excess[t] * excess[t];
    if (norm == 0 || target <= value)
      return;
    double length = scale * (target - value) / norm;
    for (size_t t = 0; t < now.size(); ++t)
      now[t] = std::max(0.0, now[t] + length * excess[t]);
  }
}

void TreeBound::climb(const std::vector<double> &prices, double target,
                      const std::function<bool()> &stop) {
  if (m.capacity.empty())
    evaluate({});
  else if (m.capacity.size() == 1)
    climbOne(prices[0], stop);
  else
    climbMany(prices, target, stop);
}

void TreeBound::prepare() {
  evaluate(bestPrices);
  engine.passBack();
}

Dual::Reduced TreeBound::pricedCosts() const {
  Dual::Reduced r;
  std::vector<double> extra = priceValues(m, bestPrices);
  for (size_t v = 0; v < m.vars.size(); ++v) {
    auto &row = r.unary.emplace_back(tables.getUnary(v));
    for (size_t s = 0; s < row.size(); ++s)
      row[s] += extra[tables.getOffset(v) + s];
  }
  for (size_t id = 0; id < m.pairs.size(); ++id)
    r.pairs.emplace_back(pool.getTable(id),
                         pool.getTable(id) + m.pairs[id].table.size());
  r.bound = static_cast<double>(m.constant);
  for (size_t t = 0; t < bestPrices.size(); ++t)
    r.bound -= bestPrices[t] * static_cast<double>(m.capacity[t]);
  r.rounding = rounding;
  return r;
}

} // namespace heddle::solver
