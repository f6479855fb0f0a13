//===- Ascent.cpp - Steering of prices and messages -----------------------===//

#include "Ascent.h"

#include <algorithm>
#include <cmath>

namespace heddle::solver {

namespace {
/// Message passes per step of the prices: few while prices are far off; many
/// when steps fail, because a guess of messages that have settled tells better
/// which way is up.
constexpr int FirstPasses = 3, MaxPasses = 60;
/// Steps in a row that may bring nothing.
constexpr int Patience = 10;
/// Below this length of steps, others are tried at random; how long steps are
/// after that.
constexpr double TrialScale = 0.003, ScaleAfterTrials = 0.006;
/// Of a trial: passes at a time, and the relative change of prices.
constexpr int PassesPerTrial = 20;
constexpr double FirstReach = 0.05, MinReach = 1e-3, MaxReach = 0.2;

/// Sums of doubles lose a few units in the last place of their largest terms.
double safe(const Dual &D) { return D.bound() - D.rounding(); }
} // namespace

Ascent::Ascent(const Model &M, const TablePool &Tables, const DualState &From)
    : Current(M, Tables, From), Best(Current), BestBound(safe(Best)),
      PassWork(64), Passes(FirstPasses), Reach(FirstReach),
      Warmup(From.Messages.empty() ? 20 : 3) {
  for (const Pair &P : M.Pairs)
    PassWork += 4.0 * static_cast<double>(P.Table.size());
}

void Ascent::climb(double Target, double Quota,
                   const std::function<bool()> &Stop) {
  double Until = Work + Quota;
  while (Work < Until && !Stop()) {
    if (Trying)
      tryPrices(Target, Stop);
    else
      step(Target, Stop);
  }
}

/// Stops early when it is time: after any pass the bound holds.
void Ascent::pass(int Count, const std::function<bool()> &Stop) {
  for (int I = 0; I < Count; ++I) {
    Current.pass();
    Work += PassWork;
    if (Stop())
      return;
  }
}

/// A few passes, then a step along the usage of the guess.
void Ascent::step(double Target, const std::function<bool()> &Stop) {
  pass(Passes, Stop);
  double Bound = safe(Current);
  if (Bound > BestBound) {
    bool Notable = Bound > BestBound + 1e-6 * (Target - BestBound);
    SinceBetter = Notable ? 0 : SinceBetter + 1;
    BestBound = Bound;
    Best = Current;
    Scale = std::min(Scale * 1.02, 0.5);
  } else {
    ++SinceBetter;
  }
  if (SinceBetter > Patience) {
    Scale *= 0.6;
    Passes = std::min(Passes * 3 / 2, MaxPasses);
    SinceBetter = 0;
    Current = Best;
    Trying = Scale < TrialScale;
  }
  Warmup -= Passes;
  if (Warmup <= 0)
    Current.stepPrices(Target, Scale);
}

/// Changes all prices, or one of them, at random: where the guess is far from
/// what the relaxation would use, its usage leads nowhere.
void Ascent::changePrices() {
  std::vector<double> Prices = Best.prices();
  std::vector<size_t> Paid;
  for (size_t T = 0; T < Prices.size(); ++T)
    if (Prices[T] > 0)
      Paid.push_back(T);
  double Factor = Luck.below(2) ? 1 + Reach : 1 / (1 + Reach);
  if (Paid.empty() || Luck.below(2))
    for (double &P : Prices)
      P *= Factor;
  else
    Prices[Paid[Luck.below(Paid.size())]] *= Factor;
  Current.setPrices(Prices);
}

/// Passes as long as they bring something, in turn at the best prices and at
/// others.
void Ascent::tryPrices(double Target, const std::function<bool()> &Stop) {
  double Before = BestBound;
  Settling = !Settling;
  if (!Settling)
    changePrices();
  double Last = safe(Current);
  for (int Left = 10; Left > 0; --Left) {
    pass(PassesPerTrial, Stop);
    double Bound = safe(Current), Gain = Bound - Last;
    Last = Bound;
    if (Bound > BestBound) {
      BestBound = Bound;
      Best = Current;
    }
    bool TooSlow = Gain * Left < BestBound - Bound;
    if (TooSlow || Gain < 1e-4 * (Target - Bound) || Stop())
      break;
  }
  Current = Best;
  if (Settling)
    return;
  bool Better = BestBound > Before + 1e-4 * (Target - BestBound);
  Reach = std::min(Better ? Reach * 1.5 : Reach * 0.8, MaxReach);
  if (Reach < MinReach) {
    Reach = FirstReach;
    Scale = ScaleAfterTrials;
    Trying = false;
  }
}

} // namespace heddle::solver
