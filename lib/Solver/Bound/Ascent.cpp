//===- Ascent.cpp - Steering of prices and messages -----------------------===//

#include "Bound/Ascent.h"

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
/// Of a trial: its parts, their passes, and the relative change of prices.
constexpr int PartsOfTrial = 10, PassesPerPart = 20;
constexpr double FirstReach = 0.05, MinReach = 1e-3, MaxReach = 0.2;
/// What prices are lowered to at first, and how long that may take.
constexpr double FirstLowerBy = 0.7;
constexpr int PartsOfLowering = 30;
/// How often a proof looks whether it is done.
constexpr int PartsOfProof = 8;

/// Sums of doubles lose a few units in the last place of their largest terms.
double safe(const Dual &D) { return D.bound() - D.rounding(); }
} // namespace

Ascent::Ascent(const Model &M, const TablePool &Tables, const DualState &From)
    : Current(M, Tables, From), Best(Current), PassWork(64),
      Passes(FirstPasses), PassesLeft(FirstPasses),
      Warmup(From.Messages.empty() ? 20 : 3), LowerBy(FirstLowerBy),
      Reach(FirstReach) {
  for (const Pair &P : M.Pairs)
    PassWork += 4.0 * static_cast<double>(P.Table.size());
  pass();
  Best = Current;
  BestBound = safe(Best);
}

void Ascent::climb(double Target, double Quota,
                   const std::function<bool()> &Stop) {
  Until += Quota;
  while (Work < Until && !Stop()) {
    pass();
    if (PassesLeft > 0)
      continue;
    if (Lowering)
      endPartOfLowering();
    else if (Trying)
      endPartOfTrial(Target);
    else
      endStep(Target);
  }
  // Nobody will come to the end of the step.
  if (Stop())
    keepIfBetter();
}

bool Ascent::prove(double Target, double Quota,
                   const std::function<bool()> &Stop) {
  for (int Part = 0; Part < PartsOfProof && BestBound <= Target - 1; ++Part)
    climb(Target, Quota / PartsOfProof, Stop);
  return BestBound > Target - 1;
}

void Ascent::pass() {
  Current.pass();
  Work += PassWork;
  --PassesLeft;
}

bool Ascent::keepIfBetter() {
  double Bound = safe(Current);
  if (Bound <= BestBound)
    return false;
  BestBound = Bound;
  Best = Current;
  return true;
}

/// After a few passes: a step along the usage of the guess.
void Ascent::endStep(double Target) {
  double Before = BestBound;
  if (keepIfBetter()) {
    bool Notable = BestBound > Before + 1e-6 * (Target - Before);
    SinceBetter = Notable ? 0 : SinceBetter + 1;
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
    if (Trying)
      return beginTrial();
  }
  Warmup -= Passes;
  if (Warmup <= 0)
    Current.stepPrices(Target, Scale);
  PassesLeft = Passes;
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

void Ascent::lowerPrices() {
  if (Lowering)
    return;
  Lowering = true;
  std::vector<double> Prices = Best.prices();
  for (double &P : Prices)
    P *= LowerBy;
  Current = Best;
  Current.setPrices(Prices);
  BoundBefore = BestBound;
  PartsLeft = PartsOfLowering;
  PassesLeft = PassesPerPart;
}

/// Less next time if the bound is not better than before in the end.
void Ascent::endPartOfLowering() {
  keepIfBetter();
  PassesLeft = PassesPerPart;
  if (--PartsLeft > 0)
    return;
  LowerBy = BestBound > BoundBefore ? FirstLowerBy : std::sqrt(LowerBy);
  Lowering = Trying = false;
  Scale = ScaleAfterTrials;
  Current = Best;
  PassesLeft = Passes;
}

/// From the best state, in turn at its prices and at others.
void Ascent::beginTrial() {
  Settling = !Settling;
  if (!Settling)
    changePrices();
  BoundBefore = BestBound;
  LastBound = safe(Current);
  PartsLeft = PartsOfTrial;
  PassesLeft = PassesPerPart;
}

/// A trial lasts as long as its passes bring something.
void Ascent::endPartOfTrial(double Target) {
  keepIfBetter();
  double Bound = safe(Current), Gain = Bound - LastBound;
  LastBound = Bound;
  bool TooSlow = Gain * PartsLeft < BestBound - Bound;
  if (--PartsLeft > 0 && !TooSlow && Gain >= 1e-4 * (Target - Bound)) {
    PassesLeft = PassesPerPart;
    return;
  }
  Current = Best;
  if (!Settling) {
    bool Better = BestBound > BoundBefore + 1e-4 * (Target - BestBound);
    Reach = std::min(Better ? Reach * 1.5 : Reach * 0.8, MaxReach);
  }
  if (Reach >= MinReach)
    return beginTrial();
  Reach = FirstReach;
  Scale = ScaleAfterTrials;
  Trying = false;
  PassesLeft = Passes;
}

} // namespace heddle::solver
