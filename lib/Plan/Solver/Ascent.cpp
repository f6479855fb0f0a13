//===- Ascent.cpp - Steering of prices and messages -----------------------===//

#include "Ascent.h"

#include <algorithm>
#include <cmath>

namespace heddle::solver {

namespace {
constexpr int PassesPerStep = 3;
constexpr int Patience = 15;

/// Sums of doubles lose a few units in the last place of their largest terms.
double safe(const Dual &D) { return D.bound() - D.rounding(); }
} // namespace

Ascent::Ascent(const Model &M, const TablePool &Tables, const DualState &From)
    : Current(M, Tables, From), Best(Current), BestBound(safe(Best)),
      PassWork(64), Warmup(From.Messages.empty() ? 20 : 3) {
  for (const Pair &P : M.Pairs)
    PassWork += 4.0 * static_cast<double>(P.Table.size());
}

void Ascent::climb(double Target, double Quota,
                   const std::function<bool()> &Stop) {
  double Until = Work + Quota;
  while (Work < Until && !Stop()) {
    for (int I = 0; I < PassesPerStep; ++I)
      Current.pass();
    Work += PassesPerStep * PassWork;
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
      SinceBetter = 0;
      Current = Best;
    }
    Warmup -= PassesPerStep;
    if (Warmup <= 0)
      Current.stepPrices(Target, Scale);
  }
}

} // namespace heddle::solver
