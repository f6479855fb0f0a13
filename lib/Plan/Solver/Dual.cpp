//===- Dual.cpp - A lower bound that rises --------------------------------===//

#include "Dual.h"

#include <algorithm>
#include <cmath>

namespace heddle::solver {

std::vector<std::vector<double>> priceValues(const Model &M,
                                             const std::vector<double> &Price) {
  std::vector<double> Sum(Price.size() + 1, 0);
  for (size_t T = 0; T < Price.size(); ++T)
    Sum[T + 1] = Sum[T] + Price[T];
  std::vector<std::vector<double>> Result(M.Vars.size());
  for (size_t V = 0; V < M.Vars.size(); ++V) {
    Result[V].assign(M.Vars[V].size(), 0);
    for (const Load &L : M.Vars[V].Loads) {
      double PerUnit = Sum[L.End] - Sum[L.Begin];
      if (PerUnit != 0)
        for (size_t S = 0; S < L.Amount.size(); ++S)
          Result[V][S] += PerUnit * static_cast<double>(L.Amount[S]);
    }
  }
  return Result;
}

Dual::Dual(const Model &M) : M(M), Price(M.Capacity.size(), 0) {
  for (const Variable &V : M.Vars)
    Unary.emplace_back(V.Unary.begin(), V.Unary.end());
  for (const Pair &P : M.Pairs) {
    Tables.emplace_back(P.Table.begin(), P.Table.end());
    Messages.push_back({std::vector<double>(M.Vars[P.A].size(), 0),
                        std::vector<double>(M.Vars[P.B].size(), 0)});
  }
  Guess.assign(M.Vars.size(), 0);
}

void Dual::assign(const Dual &Other) {
  Unary = Other.Unary;
  Messages = Other.Messages;
  Price = Other.Price;
  AverageUsage = Other.AverageUsage;
  Guess = Other.Guess;
}

void Dual::setPrices(const std::vector<double> &Prices) {
  std::vector<double> Difference(Price.size());
  for (size_t T = 0; T < Price.size(); ++T)
    Difference[T] = Prices[T] - Price[T];
  auto Change = priceValues(M, Difference);
  for (size_t V = 0; V < Unary.size(); ++V)
    for (size_t S = 0; S < Unary[V].size(); ++S)
      Unary[V][S] += Change[V][S];
  Price = Prices;
}

/// Shares what `Var` has among its pairs in one direction and lets each pair
/// hand on to its other variable whatever that one can take.
void Dual::pushFrom(int32_t Var, bool Forward) {
  const Variable &V = M.Vars[Var];
  int32_t Ahead = 0;
  for (int32_t Id : V.Pairs)
    Ahead += (M.Pairs[Id].other(Var) > Var) == Forward;
  if (Ahead == 0)
    return;
  int32_t Behind = static_cast<int32_t>(V.Pairs.size()) - Ahead;
  double Share = 1.0 / std::max(Ahead, Behind);
  auto &Own = Unary[Var];
  for (int32_t Id : V.Pairs) {
    int32_t Other = M.Pairs[Id].other(Var);
    if ((Other > Var) != Forward)
      continue;
    bool IsA = M.Pairs[Id].A == Var;
    auto &ToOwn = IsA ? Messages[Id].ToA : Messages[Id].ToB;
    auto &ToOther = IsA ? Messages[Id].ToB : Messages[Id].ToA;
    const double *Table = Tables[Id].data();
    size_t OwnSize = ToOwn.size(), OtherSize = ToOther.size();
    for (size_t S = 0; S < OwnSize; ++S)
      ToOwn[S] -= Share * Own[S];
    Scratch.assign(OtherSize, 4e18);
    if (IsA) {
      for (size_t S = 0; S < OwnSize; ++S)
        for (size_t T = 0; T < OtherSize; ++T)
          Scratch[T] =
              std::min(Scratch[T], Table[S * OtherSize + T] - ToOwn[S]);
    } else {
      for (size_t T = 0; T < OtherSize; ++T)
        for (size_t S = 0; S < OwnSize; ++S)
          Scratch[T] = std::min(Scratch[T], Table[T * OwnSize + S] - ToOwn[S]);
    }
    for (size_t T = 0; T < OtherSize; ++T) {
      Unary[Other][T] += Scratch[T] - ToOther[T];
      ToOther[T] = Scratch[T];
    }
  }
  double Left = 1 - Share * Ahead;
  for (double &C : Own)
    C *= Left;
}

void Dual::pass() {
  auto Count = static_cast<int32_t>(M.Vars.size());
  for (int32_t V = Count; V-- > 0;)
    pushFrom(V, /*Forward=*/false);
  decode();
  for (int32_t V = 0; V < Count; ++V)
    pushFrom(V, /*Forward=*/true);
}

/// After a backward pass a variable knows what all later ones cost it; the
/// earlier ones are decided.
void Dual::decode() {
  for (size_t V = 0; V < M.Vars.size(); ++V) {
    Scratch = Unary[V];
    for (int32_t Id : M.Vars[V].Pairs) {
      const Pair &P = M.Pairs[Id];
      size_t Other = P.other(static_cast<int32_t>(V));
      if (Other > V)
        continue;
      for (size_t S = 0; S < Scratch.size(); ++S)
        Scratch[S] += P.A == static_cast<int32_t>(V)
                          ? entry(Id, S, Guess[Other])
                          : entry(Id, Guess[Other], S);
    }
    Guess[V] = static_cast<int32_t>(std::ranges::min_element(Scratch) -
                                    Scratch.begin());
  }
}

double Dual::bound() const {
  double Sum = static_cast<double>(M.Constant);
  for (const auto &U : Unary)
    Sum += *std::ranges::min_element(U);
  for (size_t Id = 0; Id < Messages.size(); ++Id) {
    double Least = 4e18;
    for (size_t A = 0; A < Messages[Id].ToA.size(); ++A)
      for (size_t B = 0; B < Messages[Id].ToB.size(); ++B)
        Least = std::min(Least, entry(Id, A, B));
    Sum += Least;
  }
  for (size_t T = 0; T < Price.size(); ++T)
    Sum -= Price[T] * static_cast<double>(M.Capacity[T]);
  return Sum;
}

double Dual::rounding() const {
  double Size = std::abs(static_cast<double>(M.Constant)) + 1e-6;
  for (const auto &U : Unary)
    Size += std::abs(*std::ranges::min_element(U));
  for (size_t T = 0; T < Price.size(); ++T)
    Size += Price[T] * static_cast<double>(M.Capacity[T]);
  return Size * 1e-11;
}

void Dual::stepPrices(double Target, double Scale) {
  std::vector<Usage> Used = usageOf(M, Guess);
  if (AverageUsage.empty())
    AverageUsage.assign(Used.begin(), Used.end());
  double Norm = 0;
  std::vector<double> Excess(Price.size());
  for (size_t T = 0; T < Price.size(); ++T) {
    AverageUsage[T] += 0.1 * (static_cast<double>(Used[T]) - AverageUsage[T]);
    Excess[T] = AverageUsage[T] - static_cast<double>(M.Capacity[T]);
    if (Excess[T] < 0 && Price[T] <= 0)
      Excess[T] = 0;
    Norm += Excess[T] * Excess[T];
  }
  double Gap = Target - bound();
  if (Norm <= 0 || Gap <= 0)
    return;
  double Step = Scale * Gap / Norm;
  std::vector<double> Next(Price);
  for (size_t T = 0; T < Price.size(); ++T)
    Next[T] = std::max(0.0, Price[T] + Step * Excess[T]);
  setPrices(Next);
}

std::vector<std::vector<double>> Dual::valueBounds() const {
  double Base = bound();
  std::vector<std::vector<double>> Result;
  for (const auto &U : Unary) {
    double Least = *std::ranges::min_element(U);
    auto &Row = Result.emplace_back(U);
    for (double &C : Row)
      C += Base - Least;
  }
  std::vector<double> LeastOfA, LeastOfB;
  for (size_t Id = 0; Id < Messages.size(); ++Id) {
    LeastOfA.assign(Messages[Id].ToA.size(), 4e18);
    LeastOfB.assign(Messages[Id].ToB.size(), 4e18);
    for (size_t A = 0; A < LeastOfA.size(); ++A)
      for (size_t B = 0; B < LeastOfB.size(); ++B) {
        double C = entry(Id, A, B);
        LeastOfA[A] = std::min(LeastOfA[A], C);
        LeastOfB[B] = std::min(LeastOfB[B], C);
      }
    double Least = *std::ranges::min_element(LeastOfA);
    for (size_t A = 0; A < LeastOfA.size(); ++A)
      Result[M.Pairs[Id].A][A] += LeastOfA[A] - Least;
    for (size_t B = 0; B < LeastOfB.size(); ++B)
      Result[M.Pairs[Id].B][B] += LeastOfB[B] - Least;
  }
  return Result;
}

Dual::Reduced Dual::reducedCosts() const {
  Reduced R;
  R.Bound = bound();
  R.Rounding = rounding();
  for (const auto &U : Unary) {
    double Least = *std::ranges::min_element(U);
    auto &Row = R.Unary.emplace_back(U);
    for (double &C : Row)
      C -= Least;
  }
  for (size_t Id = 0; Id < Messages.size(); ++Id) {
    auto &Table = R.Pairs.emplace_back();
    for (size_t A = 0; A < Messages[Id].ToA.size(); ++A)
      for (size_t B = 0; B < Messages[Id].ToB.size(); ++B)
        Table.push_back(entry(Id, A, B));
    double Least = *std::ranges::min_element(Table);
    for (double &C : Table)
      C -= Least;
  }
  return R;
}

} // namespace heddle::solver
