//===- TreeBound.cpp - The exact bound of narrow models -------------------===//

#include "Bound/TreeBound.h"
#include "Bound/EliminationOrder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace heddle::solver {

TreeBound::TreeBound(const CostTables &Tables, const TablePool &Pool,
                     double MaxEntries)
    : Tables(Tables), Pool(Pool), M(Tables.model()), Engine(Tables),
      Best(-std::numeric_limits<double>::infinity()),
      BestPrices(M.Capacity.size(), 0), BestLabels(M.Vars.size(), 0),
      X(M.Vars.size(), 0) {
  std::vector<int32_t> All(M.Vars.size());
  std::iota(All.begin(), All.end(), 0);
  Random Unused(0);
  // What is too wide is left out; then the bound would not hold.
  Engine.plan(All, MaxEntries, MaxEntries, Unused);
  Usable = Engine.members().size() == All.size();
}

/// The bound at some prices; sets `X` and `Excess` to what attains it.
double TreeBound::evaluate(const std::vector<double> &Prices) {
  std::vector<double> Extra = priceValues(M, Prices);
  double Value = Engine.solve(Extra, X) + static_cast<double>(M.Constant);
  double Size = std::abs(Value) + static_cast<double>(M.Constant) + 1e-6;
  std::vector<Usage> Used = usageOf(M, X);
  Excess.resize(Used.size());
  for (size_t T = 0; T < Used.size(); ++T) {
    Value -= Prices[T] * static_cast<double>(M.Capacity[T]);
    Size += Prices[T] * std::abs(static_cast<double>(M.Capacity[T]));
    Excess[T] = static_cast<double>(Used[T] - M.Capacity[T]);
  }
  Work += Engine.work();
  if (withinCapacity(M, Used))
    if (Cost Total = costOf(M, X); Total < FeasibleCost) {
      Feasible = X;
      FeasibleCost = Total;
    }
  double Margin = Size * 1e-11;
  if (Value - Margin > Best) {
    Best = Value - Margin;
    Rounding = Margin;
    BestPrices = Prices;
    BestLabels = X;
  }
  return Value;
}

/// One time: the bound is a concave function of one price. Intersects the
/// tangents on either side of its maximum until that is one of them (Kelley's
/// cutting planes).
void TreeBound::climbOne(double Start, const std::function<bool()> &Stop) {
  double Low = 0, High = std::max(Start, 1e-6);
  double ValueLow = evaluate({Low}), SlopeLow = Excess[0];
  if (SlopeLow <= 0)
    return;
  double ValueHigh = evaluate({High}), SlopeHigh = Excess[0];
  while (SlopeHigh > 0 && High < 1e15 && !Stop()) {
    Low = High, ValueLow = ValueHigh, SlopeLow = SlopeHigh;
    High *= 4;
    ValueHigh = evaluate({High}), SlopeHigh = Excess[0];
  }
  for (int Step = 0; Step < 100 && SlopeHigh < 0 && !Stop(); ++Step) {
    double Next = (ValueHigh - ValueLow + SlopeLow * Low - SlopeHigh * High) /
                  (SlopeLow - SlopeHigh);
    if (!(Next > Low && Next < High))
      return;
    double Promise = ValueLow + SlopeLow * (Next - Low);
    double Value = evaluate({Next}), Slope = Excess[0];
    if (Slope == 0 || Promise - Value < 1e-12 * std::abs(Value))
      return;
    if (Slope > 0)
      Low = Next, ValueLow = Value, SlopeLow = Slope;
    else
      High = Next, ValueHigh = Value, SlopeHigh = Slope;
  }
}

void TreeBound::climbMany(const std::vector<double> &Start, double Target,
                          const std::function<bool()> &Stop) {
  std::vector<double> Now = Start;
  double Scale = 1;
  int SinceBetter = 0;
  for (int Step = 0; Step < 300 && Scale > 1e-4 && !Stop(); ++Step) {
    double Before = Best, Value = evaluate(Now), Norm = 0;
    SinceBetter = Best > Before ? 0 : SinceBetter + 1;
    if (SinceBetter > 6) {
      Scale /= 2;
      SinceBetter = 0;
      Now = BestPrices;
      continue;
    }
    for (size_t T = 0; T < Now.size(); ++T)
      if (Excess[T] > 0 || Now[T] > 0)
        Norm += Excess[T] * Excess[T];
    if (Norm == 0 || Target <= Value)
      return;
    double Length = Scale * (Target - Value) / Norm;
    for (size_t T = 0; T < Now.size(); ++T)
      Now[T] = std::max(0.0, Now[T] + Length * Excess[T]);
  }
}

void TreeBound::climb(const std::vector<double> &Prices, double Target,
                      const std::function<bool()> &Stop) {
  if (M.Capacity.empty())
    evaluate({});
  else if (M.Capacity.size() == 1)
    climbOne(Prices[0], Stop);
  else
    climbMany(Prices, Target, Stop);
}

void TreeBound::prepare() {
  evaluate(BestPrices);
  Engine.passBack();
}

Dual::Reduced TreeBound::pricedCosts() const {
  Dual::Reduced R;
  std::vector<double> Extra = priceValues(M, BestPrices);
  for (size_t V = 0; V < M.Vars.size(); ++V) {
    auto &Row = R.Unary.emplace_back(Tables.unary(V));
    for (size_t S = 0; S < Row.size(); ++S)
      Row[S] += Extra[Tables.offset(V) + S];
  }
  for (size_t Id = 0; Id < M.Pairs.size(); ++Id)
    R.Pairs.emplace_back(Pool.table(Id),
                         Pool.table(Id) + M.Pairs[Id].Table.size());
  R.Bound = static_cast<double>(M.Constant);
  for (size_t T = 0; T < BestPrices.size(); ++T)
    R.Bound -= BestPrices[T] * static_cast<double>(M.Capacity[T]);
  R.Rounding = Rounding;
  return R;
}

} // namespace heddle::solver
