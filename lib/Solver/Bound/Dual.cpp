//===- Dual.cpp - A lower bound that rises --------------------------------===//

#include "Bound/Dual.h"
#include "Bound/MinPlus.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace heddle::solver {

std::vector<double> priceValues(const Model &M,
                                const std::vector<double> &Price) {
  std::vector<double> Sum(Price.size() + 1, 0);
  for (size_t T = 0; T < Price.size(); ++T)
    Sum[T + 1] = Sum[T] + Price[T];
  std::vector<double> Result;
  for (const Variable &V : M.Vars) {
    size_t First = Result.size();
    Result.resize(First + V.Unary.size(), 0);
    for (const Load &L : V.Loads) {
      double PerUnit = Sum[L.End] - Sum[L.Begin];
      if (PerUnit != 0)
        for (size_t S = 0; S < L.Amount.size(); ++S)
          Result[First + S] += PerUnit * static_cast<double>(L.Amount[S]);
    }
  }
  return Result;
}

Dual::Dual(const Model &Source, const TablePool &Tables, const DualState &From)
    : M(&Source), Tables(&Tables), Price(Source.Capacity.size(), 0),
      Guess(Source.Vars.size(), 0) {
  build();
  if (!From.Prices.empty())
    Price = From.Prices;
  for (size_t Id = 0; Id < From.Messages.size(); ++Id)
    std::ranges::copy(From.Messages[Id],
                      Messages.begin() + Fixed->MessageToA[Id]);
  rebuildUnary();
}

void Dual::build() {
  auto L = std::make_shared<Layout>();
  L->Offsets.push_back(0);
  for (const Variable &V : M->Vars)
    L->Offsets.push_back(L->Offsets.back() + V.Unary.size());
  size_t MessageCount = 0;
  L->Earlier.resize(M->Vars.size());
  L->Later.resize(M->Vars.size());
  for (size_t Id = 0; Id < M->Pairs.size(); ++Id) {
    const Pair &P = M->Pairs[Id];
    int32_t SizeA = M->Vars[P.A].size(), SizeB = M->Vars[P.B].size();
    size_t ToA = MessageCount, ToB = MessageCount + SizeA;
    MessageCount += SizeA + SizeB;
    L->MessageToA.push_back(ToA);
    L->MessageToB.push_back(ToB);
    const double *Plain = Tables->table(Id);
    const double *Transposed = Tables->transposed(Id);
    (P.B > P.A ? L->Later : L->Earlier)[P.A].push_back(
        {P.B, SizeB, Plain, Transposed, ToA, ToB});
    (P.A > P.B ? L->Later : L->Earlier)[P.B].push_back(
        {P.A, SizeA, Transposed, Plain, ToB, ToA});
  }
  Messages.assign(MessageCount, 0);
  Fixed = std::move(L);
}

/// From the model, prices and messages: passes change it bit by bit, and what
/// rounding leaves there would add up.
void Dual::rebuildUnary() {
  Unary = priceValues(*M, Price);
  for (size_t V = 0; V < M->Vars.size(); ++V) {
    double *Own = Unary.data() + Fixed->Offsets[V];
    for (Cost C : M->Vars[V].Unary)
      *Own++ += Tables->convert(C);
  }
  for (size_t Id = 0; Id < M->Pairs.size(); ++Id)
    for (int32_t Var : {M->Pairs[Id].A, M->Pairs[Id].B})
      addTo(Unary.data() + Fixed->Offsets[Var],
            Messages.data() + (Var == M->Pairs[Id].A ? Fixed->MessageToA[Id]
                                                     : Fixed->MessageToB[Id]),
            Fixed->Offsets[Var + 1] - Fixed->Offsets[Var]);
}

void Dual::setPrices(const std::vector<double> &Prices) {
  Price = Prices;
  rebuildUnary();
}

DualState Dual::state() const {
  DualState State{Price, {}};
  for (size_t Id = 0; Id < M->Pairs.size(); ++Id) {
    const Pair &P = M->Pairs[Id];
    auto First = Messages.begin() + Fixed->MessageToA[Id];
    State.Messages.emplace_back(First, First + M->Vars[P.A].size() +
                                           M->Vars[P.B].size());
  }
  return State;
}

/// Shares what `Var` has among its pairs in one direction and lets each pair
/// hand on to its other variable whatever that one can take.
void Dual::push(int32_t Var, const std::vector<Link> &Ahead,
                const std::vector<Link> &Behind) {
  if (Ahead.empty())
    return;
  double Share =
      1.0 / static_cast<double>(std::max(Ahead.size(), Behind.size()));
  double *Own = Unary.data() + Fixed->Offsets[Var];
  size_t Size = Fixed->Offsets[Var + 1] - Fixed->Offsets[Var];
  for (const Link &L : Ahead) {
    double *ToOwn = Messages.data() + L.ToOwn;
    double *ToOther = Messages.data() + L.ToOther;
    double *Other = Unary.data() + Fixed->Offsets[L.Other];
    for (size_t S = 0; S < Size; ++S)
      ToOwn[S] -= Share * Own[S];
    Scratch.resize(std::max<size_t>(Scratch.size(), L.Size));
    minMinusRows(L.Table, ToOwn, Size, L.Size, Scratch.data());
    for (int32_t T = 0; T < L.Size; ++T) {
      Other[T] += Scratch[T] - ToOther[T];
      ToOther[T] = Scratch[T];
    }
  }
  double Left = 1 - Share * static_cast<double>(Ahead.size());
  for (size_t S = 0; S < Size; ++S)
    Own[S] *= Left;
}

void Dual::pass() {
  if (++Passes % 64 == 0)
    rebuildUnary();
  auto Count = static_cast<int32_t>(M->Vars.size());
  for (int32_t V = Count; V-- > 0;)
    push(V, Fixed->Earlier[V], Fixed->Later[V]);
  decode();
  for (int32_t V = 0; V < Count; ++V)
    push(V, Fixed->Later[V], Fixed->Earlier[V]);
  Settled = true;
}

/// What every value of a variable costs, by `Sum`, when those at the other ends
/// of the `Decided` links have the values of `X`; the others by their messages.
void Dual::priceDecided(size_t Var, const std::vector<Link> &Decided,
                        const Labels &X, std::vector<double> &Sum) const {
  const double *Own = Unary.data() + Fixed->Offsets[Var];
  Sum.assign(Own, Own + (Fixed->Offsets[Var + 1] - Fixed->Offsets[Var]));
  for (const Link &L : Decided) {
    const double *Row = L.Transposed + X[L.Other] * Sum.size();
    const double *ToOwn = Messages.data() + L.ToOwn;
    for (size_t S = 0; S < Sum.size(); ++S)
      Sum[S] += Row[S] - ToOwn[S];
  }
}

/// After a backward pass a variable knows what all later ones cost it; the
/// earlier ones are decided.
void Dual::decode() {
  for (size_t V = 0; V < M->Vars.size(); ++V) {
    priceDecided(V, Fixed->Earlier[V], Guess, Scratch);
    Guess[V] = static_cast<int32_t>(std::ranges::min_element(Scratch) -
                                    Scratch.begin());
  }
}

/// After a forward pass a variable knows what all earlier ones cost it; the
/// later ones are decided.
Labels Dual::sample(double Noise, double PriceFactor, Random &R) const {
  Labels X(M->Vars.size());
  std::vector<double> Priced = priceValues(*M, Price);
  std::vector<double> Sum;
  for (size_t V = M->Vars.size(); V-- > 0;) {
    priceDecided(V, Fixed->Later[V], X, Sum);
    for (size_t S = 0; S < Sum.size(); ++S)
      Sum[S] +=
          Noise * R.unit() + (PriceFactor - 1) * Priced[Fixed->Offsets[V] + S];
    X[V] = static_cast<int32_t>(std::ranges::min_element(Sum) - Sum.begin());
  }
  return X;
}

double Dual::leastOf(int32_t Var) const {
  return least(Unary.data() + Fixed->Offsets[Var],
               Fixed->Offsets[Var + 1] - Fixed->Offsets[Var]);
}

double Dual::leastOfPair(size_t Id) const {
  const Pair &P = M->Pairs[Id];
  double Least = entry(Id, 0, 0);
  for (int32_t A = 0; A < M->Vars[P.A].size(); ++A)
    for (int32_t B = 0; B < M->Vars[P.B].size(); ++B)
      Least = std::min(Least, entry(Id, A, B));
  return Least;
}

double Dual::bound() const {
  auto Sum = static_cast<double>(M->Constant);
  for (size_t V = 0; V < M->Vars.size(); ++V)
    Sum += leastOf(static_cast<int32_t>(V));
  if (!Settled)
    for (size_t Id = 0; Id < M->Pairs.size(); ++Id)
      Sum += leastOfPair(Id);
  for (size_t T = 0; T < Price.size(); ++T)
    Sum -= Price[T] * static_cast<double>(M->Capacity[T]);
  return Sum;
}

double Dual::rounding() const {
  // Every sum may be off by some units in the last place of its terms. What
  // counts is by how much that lowers the least value: one that is forbidden
  // has huge terms and is far from being the least.
  constexpr double Relative = 1e-12;
  std::vector<double> Terms = priceValues(*M, Price);
  for (size_t V = 0; V < M->Vars.size(); ++V) {
    double *Own = Terms.data() + Fixed->Offsets[V];
    for (Cost C : M->Vars[V].Unary)
      *Own++ += std::abs(Tables->convert(C));
  }
  for (size_t Id = 0; Id < M->Pairs.size(); ++Id)
    for (auto [Var, First] :
         {std::pair(M->Pairs[Id].A, Fixed->MessageToA[Id]),
          std::pair(M->Pairs[Id].B, Fixed->MessageToB[Id])}) {
      double *Own = Terms.data() + Fixed->Offsets[Var];
      size_t Size = Fixed->Offsets[Var + 1] - Fixed->Offsets[Var];
      for (size_t S = 0; S < Size; ++S)
        Own[S] += std::abs(Messages[First + S]);
    }
  double Size = std::abs(static_cast<double>(M->Constant)) + 1e-6;
  for (size_t T = 0; T < Price.size(); ++T)
    Size += Price[T] * std::abs(static_cast<double>(M->Capacity[T]));
  double Sum = Size * Relative;
  for (size_t V = 0; V < M->Vars.size(); ++V) {
    double Least = std::numeric_limits<double>::infinity(), Lowered = Least;
    for (size_t I = Fixed->Offsets[V]; I < Fixed->Offsets[V + 1]; ++I) {
      Least = std::min(Least, Unary[I]);
      Lowered = std::min(Lowered, Unary[I] - Relative * Terms[I]);
    }
    Sum += Least - Lowered;
  }
  return Sum;
}

void Dual::stepPrices(double Target, double Scale) {
  std::vector<Usage> Used = usageOf(*M, Guess);
  if (AverageUsage.empty())
    AverageUsage.assign(Used.begin(), Used.end());
  double Norm = 0;
  std::vector<double> Excess(Price.size());
  for (size_t T = 0; T < Price.size(); ++T) {
    AverageUsage[T] += 0.1 * (static_cast<double>(Used[T]) - AverageUsage[T]);
    Excess[T] = AverageUsage[T] - static_cast<double>(M->Capacity[T]);
    if (Excess[T] < 0 && Price[T] <= 0)
      Excess[T] = 0;
    Norm += Excess[T] * Excess[T];
  }
  // A cost found early may be many times the optimum: aiming there would
  // overshoot.
  double Bound = bound();
  double Gap =
      std::min(Target - Bound, std::max(0.5 * std::abs(Bound), 0.01 * Target));
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
  for (size_t V = 0; V < M->Vars.size(); ++V) {
    double Least = leastOf(static_cast<int32_t>(V));
    auto &Row = Result.emplace_back(Unary.data() + Fixed->Offsets[V],
                                    Unary.data() + Fixed->Offsets[V + 1]);
    for (double &C : Row)
      C += Base - Least;
  }
  std::vector<double> OfA, OfB;
  for (size_t Id = 0; Id < M->Pairs.size(); ++Id) {
    const Pair &P = M->Pairs[Id];
    double Least = leastOfPair(Id);
    OfA.assign(M->Vars[P.A].size(), 4e18);
    OfB.assign(M->Vars[P.B].size(), 4e18);
    for (size_t A = 0; A < OfA.size(); ++A)
      for (size_t B = 0; B < OfB.size(); ++B) {
        double C = entry(Id, A, B);
        OfA[A] = std::min(OfA[A], C);
        OfB[B] = std::min(OfB[B], C);
      }
    for (size_t A = 0; A < OfA.size(); ++A)
      Result[P.A][A] += OfA[A] - Least;
    for (size_t B = 0; B < OfB.size(); ++B)
      Result[P.B][B] += OfB[B] - Least;
  }
  return Result;
}

Dual::Reduced Dual::reducedCosts() const {
  Reduced R;
  R.Bound = bound();
  R.Rounding = rounding();
  for (size_t V = 0; V < M->Vars.size(); ++V) {
    double Least = leastOf(static_cast<int32_t>(V));
    auto &Row = R.Unary.emplace_back(Unary.data() + Fixed->Offsets[V],
                                     Unary.data() + Fixed->Offsets[V + 1]);
    for (double &C : Row)
      C -= Least;
  }
  for (size_t Id = 0; Id < M->Pairs.size(); ++Id) {
    const Pair &P = M->Pairs[Id];
    double Least = leastOfPair(Id);
    auto &Table = R.Pairs.emplace_back();
    Table.reserve(P.Table.size());
    for (int32_t A = 0; A < M->Vars[P.A].size(); ++A)
      for (int32_t B = 0; B < M->Vars[P.B].size(); ++B)
        Table.push_back(entry(Id, A, B) - Least);
  }
  return R;
}

namespace {

/// Messages by name of the variable that gets them, then of the one at the
/// pair's other end.
class Messages {
public:
  Messages(const DualState &State, const Model &M, const ModelNames &Names)
      : State(State), Names(Names) {
    for (size_t Id = 0; Id < State.Messages.size(); ++Id) {
      int32_t A = Names.Vars[M.Pairs[Id].A], B = Names.Vars[M.Pairs[Id].B];
      Pairs[key(A, B)] = {Id, 0, M.Pairs[Id].A};
      Pairs[key(B, A)] = {Id, M.Vars[M.Pairs[Id].A].Unary.size(),
                          M.Pairs[Id].B};
    }
  }

  /// Appends the message to `Var` from its pair with `Other`, for the values of
  /// these names; zeros for what is not known.
  void append(int32_t Var, int32_t Other, const std::vector<int32_t> &Values,
              std::vector<double> &Out) const {
    auto Found = Pairs.find(key(Var, Other));
    if (Found == Pairs.end()) {
      Out.resize(Out.size() + Values.size(), 0);
      return;
    }
    const auto &[Id, First, Own] = Found->second;
    const std::vector<int32_t> &Known = Names.Values[Own];
    for (int32_t Value : Values) {
      auto At = std::ranges::find(Known, Value);
      Out.push_back(At == Known.end()
                        ? 0
                        : State.Messages[Id][First + (At - Known.begin())]);
    }
  }

private:
  static uint64_t key(int32_t A, int32_t B) {
    return static_cast<uint64_t>(A) << 32 | static_cast<uint32_t>(B);
  }
  struct Place {
    size_t Id, First;
    int32_t Own;
  };
  const DualState &State;
  const ModelNames &Names;
  std::unordered_map<uint64_t, Place> Pairs;
};

} // namespace

DualState carryOver(const DualState &State, const Model &From,
                    const ModelNames &FromNames, const Model &To,
                    const ModelNames &ToNames) {
  DualState Result;
  Result.Prices.assign(ToNames.Times.size(), 0);
  for (size_t T = 0; T < State.Prices.size() && !Result.Prices.empty(); ++T) {
    size_t Next = std::ranges::lower_bound(ToNames.Times, FromNames.Times[T]) -
                  ToNames.Times.begin();
    Result.Prices[std::min(Next, Result.Prices.size() - 1)] += State.Prices[T];
  }
  Messages Known(State, From, FromNames);
  for (const Pair &P : To.Pairs) {
    int32_t A = ToNames.Vars[P.A], B = ToNames.Vars[P.B];
    auto &Row = Result.Messages.emplace_back();
    Known.append(A, B, ToNames.Values[P.A], Row);
    Known.append(B, A, ToNames.Values[P.B], Row);
  }
  return Result;
}

} // namespace heddle::solver
