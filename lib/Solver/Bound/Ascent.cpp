//===- Ascent.cpp - Steering of prices and messages -----------------------===//

#include "Bound/Ascent.h"

#include <algorithm>
#include <cmath>

namespace heddle::solver {

namespace {
/// Message passes per step of the prices: few while prices are far off, more
/// when steps fail, because settled messages give a better guess and so a
/// better direction.
constexpr int kFirstPasses = 3, kMaxPasses = 60;
/// Steps in a row that may leave the bound as it is.
constexpr int kPatience = 10;
/// The `scale` of steps below which trials begin, and the one after trials.
constexpr double kTrialScale = 0.003, kScaleAfterTrials = 0.006;
/// The number of parts of a trial, the passes of a part, and the relative
/// change of prices in a trial.
constexpr int kPartsOfTrial = 10, kPassesPerPart = 20;
constexpr double kFirstReach = 0.05, kMinReach = 1e-3, kMaxReach = 0.2;
/// The first factor by which prices are lowered, and the number of parts that a
/// lowering takes.
constexpr double kFirstLowerBy = 0.7;
constexpr int kPartsOfLowering = 30;
/// How many times `prove` checks whether the bound has reached its target.
constexpr int kPartsOfProof = 8;

/// The bound, less what rounding may have added to it.
double safe(const Dual &d) { return d.getBound() - d.getRounding(); }
} // namespace

Ascent::Ascent(const Model &m, const TablePool &tables, const DualState &from)
    : current(m, tables, from), best(current), passWork(64),
      passes(kFirstPasses), passesLeft(kFirstPasses),
      warmup(from.messages.empty() ? 20 : 3), lowerBy(kFirstLowerBy),
      reach(kFirstReach) {
  for (const Pair &p : m.pairs)
    passWork += 4.0 * static_cast<double>(p.table.size());
  pass();
  best = current;
  bestBound = safe(best);
}

void Ascent::climb(double target, double quota,
                   const std::function<bool()> &stop) {
  until += quota;
  while (work < until && !stop()) {
    pass();
    if (passesLeft > 0)
      continue;
    if (lowering)
      endPartOfLowering();
    else if (trying)
      endPartOfTrial(target);
    else
      endStep(target);
  }
  // The step will not be finished, so look at its bound here.
  if (stop())
    keepIfBetter();
}

bool Ascent::prove(double target, double quota,
                   const std::function<bool()> &stop) {
  for (int part = 0; part < kPartsOfProof && bestBound <= target - 1; ++part)
    climb(target, quota / kPartsOfProof, stop);
  return bestBound > target - 1;
}

void Ascent::pass() {
  current.pass();
  work += passWork;
  --passesLeft;
}

bool Ascent::keepIfBetter() {
  double bound = safe(current);
  if (bound <= bestBound)
    return false;
  bestBound = bound;
  best = current;
  return true;
}

/// Ends a step, and its passes: keeps the state if its bound is better, and
/// moves the prices along the usage of the guess.
void Ascent::endStep(double target) {
  double before = bestBound;
  if (keepIfBetter()) {
    bool notable = bestBound > before + 1e-6 * (target - before);
    sinceBetter = notable ? 0 : sinceBetter + 1;
    scale = std::min(scale * 1.02, 0.5);
  } else {
    ++sinceBetter;
  }
  if (sinceBetter > kPatience) {
    scale *= 0.6;
    passes = std::min(passes * 3 / 2, kMaxPasses);
    sinceBetter = 0;
    current = best;
    trying = scale < kTrialScale;
    if (trying)
      return beginTrial();
  }
  warmup -= passes;
  if (warmup <= 0)
    current.stepPrices(target, scale);
  passesLeft = passes;
}

/// Changes all prices, or one of them, at random. This can help where the guess
/// uses memory very differently from the relaxation's optimum, so that steps
/// along the guess's usage do not raise the bound.
void Ascent::changePrices() {
  std::vector<double> prices = best.getPrices();
  std::vector<size_t> paid;
  for (size_t t = 0; t < prices.size(); ++t)
    if (prices[t] > 0)
      paid.push_back(t);
  double factor = luck.below(2) ? 1 + reach : 1 / (1 + reach);
  if (paid.empty() || luck.below(2))
    for (double &p : prices)
      p *= factor;
  else
    prices[paid[luck.below(paid.size())]] *= factor;
  current.setPrices(prices);
}

void Ascent::lowerPrices() {
  if (lowering)
    return;
  lowering = true;
  std::vector<double> prices = best.getPrices();
  for (double &p : prices)
    p *= lowerBy;
  current = best;
  current.setPrices(prices);
  boundBefore = bestBound;
  partsLeft = kPartsOfLowering;
  passesLeft = kPassesPerPart;
}

/// Ends a part of a lowering. After the last part, goes back to the best state.
/// If the bound has not become better, the next lowering lowers prices by less.
void Ascent::endPartOfLowering() {
  keepIfBetter();
  passesLeft = kPassesPerPart;
  if (--partsLeft > 0)
    return;
  lowerBy = bestBound > boundBefore ? kFirstLowerBy : std::sqrt(lowerBy);
  lowering = trying = false;
  scale = kScaleAfterTrials;
  current = best;
  passesLeft = passes;
}

/// Begins a trial from the best state, in turn at its prices and at changed
/// ones.
void Ascent::beginTrial() {
  settling = !settling;
  if (!settling)
    changePrices();
  boundBefore = bestBound;
  lastBound = safe(current);
  partsLeft = kPartsOfTrial;
  passesLeft = kPassesPerPart;
}

/// Ends a part of a trial. The trial goes on as long as its parts raise the
/// bound fast enough to pass the best bound in time. Trials end when changes of
/// prices have become too small.
void Ascent::endPartOfTrial(double target) {
  keepIfBetter();
  double bound = safe(current), gain = bound - lastBound;
  lastBound = bound;
  bool tooSlow = gain * partsLeft < bestBound - bound;
  if (--partsLeft > 0 && !tooSlow && gain >= 1e-4 * (target - bound)) {
    passesLeft = kPassesPerPart;
    return;
  }
  current = best;
  if (!settling) {
    bool better = bestBound > boundBefore + 1e-4 * (target - bestBound);
    reach = std::min(better ? reach * 1.5 : reach * 0.8, kMaxReach);
  }
  if (reach >= kMinReach)
    return beginTrial();
  reach = kFirstReach;
  scale = kScaleAfterTrials;
  trying = false;
  passesLeft = passes;
}

} // namespace heddle::solver
