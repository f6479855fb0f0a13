//===- PresolvePrune.cpp - Reductions that remove values ------------------===//

#include "Reduce/Presolve.h"

#include <algorithm>
#include <bit>

namespace heddle::solver {

namespace {

/// Minimum over ranges of an array in constant time (sparse table).
class RangeMinimum {
public:
  explicit RangeMinimum(const std::vector<Usage> &Values) : Levels{Values} {
    for (size_t Width = 1; 2 * Width <= Values.size(); Width *= 2) {
      const auto &Last = Levels.back();
      std::vector<Usage> Next(Last.size() - Width);
      for (size_t I = 0; I < Next.size(); ++I)
        Next[I] = std::min(Last[I], Last[I + Width]);
      Levels.push_back(std::move(Next));
    }
  }

  /// Over the non-empty range [Begin, End).
  Usage operator()(int32_t Begin, int32_t End) const {
    unsigned Level = std::bit_width(static_cast<uint32_t>(End - Begin)) - 1;
    return std::min(Levels[Level][Begin], Levels[Level][End - (1 << Level)]);
  }

private:
  std::vector<std::vector<Usage>> Levels;
};

} // namespace

/// Removes the values of a variable that are not kept; true if there were any.
bool Presolver::keepValues(int32_t Var, const std::vector<char> &Keep) {
  Variable &V = Work.Vars[Var];
  int32_t Size = V.size();
  std::vector<int32_t> Kept;
  for (int32_t S = 0; S < Size; ++S)
    if (Keep[S])
      Kept.push_back(S);
  if (static_cast<int32_t>(Kept.size()) == Size)
    return false;
  if (Kept.empty()) {
    Infeasible = true;
    if (Reason.empty())
      Reason = "no strategy of a node is left";
    return true;
  }
  auto Compact = [&](auto &List) {
    for (size_t I = 0; I < Kept.size(); ++I)
      List[I] = List[Kept[I]];
    List.resize(Kept.size());
  };
  for (int32_t Id : V.Pairs) {
    Pair &P = Work.Pairs[Id];
    PairView View(Work, P, Var);
    int32_t Theirs = Work.Vars[P.other(Var)].size();
    std::vector<Cost> Table;
    Table.reserve(Kept.size() * Theirs);
    if (P.A == Var) {
      for (int32_t S : Kept)
        for (int32_t T = 0; T < Theirs; ++T)
          Table.push_back(View(S, T));
    } else {
      for (int32_t T = 0; T < Theirs; ++T)
        for (int32_t S : Kept)
          Table.push_back(View(S, T));
    }
    P.Table = std::move(Table);
  }
  Compact(V.Unary);
  Compact(Origin[Var]);
  for (Load &L : V.Loads)
    Compact(L.Amount);
  return true;
}

/// One pass over a pair in both directions; true if a value went.
bool Presolver::supportInPair(int32_t Id) {
  const Pair &P = Work.Pairs[Id];
  const Variable &A = Work.Vars[P.A], &B = Work.Vars[P.B];
  std::vector<char> KeepA(A.size(), 0), KeepB(B.size(), 0);
  size_t Entry = 0;
  for (int32_t I = 0; I < A.size(); ++I)
    for (int32_t J = 0; J < B.size(); ++J)
      if (addCosts(P.Table[Entry++], addCosts(A.Unary[I], B.Unary[J])) <
          InfiniteCost)
        KeepA[I] = KeepB[J] = 1;
  int32_t VarA = P.A, VarB = P.B;
  bool Changed = keepValues(VarA, KeepA);
  return !Infeasible && (keepValues(VarB, KeepB) || Changed);
}

void Presolver::makeArcConsistent(const std::function<bool()> &Stop) {
  std::vector<int32_t> Queue;
  std::vector<char> Queued(Work.Pairs.size(), 0);
  auto Push = [&](int32_t Id) {
    if (!Queued[Id]) {
      Queued[Id] = 1;
      Queue.push_back(Id);
    }
  };
  Reason = "no combination of strategies has a finite cost";
  for (size_t V = 0; V < Work.Vars.size() && !Infeasible; ++V)
    if (Alive[V]) {
      std::vector<char> Keep(Work.Vars[V].size());
      for (size_t S = 0; S < Keep.size(); ++S)
        Keep[S] = Work.Vars[V].Unary[S] < InfiniteCost;
      keepValues(static_cast<int32_t>(V), Keep);
    }
  for (size_t Id = 0; Id < Work.Pairs.size(); ++Id)
    if (PairAlive[Id])
      Push(static_cast<int32_t>(Id));
  for (size_t Turn = 0; !Queue.empty() && !Infeasible; ++Turn) {
    if (Turn % 64 == 0 && Stop())
      return;
    int32_t Id = Queue.back();
    Queue.pop_back();
    Queued[Id] = 0;
    const Pair &P = Work.Pairs[Id];
    if (supportInPair(Id))
      for (int32_t Var : {P.A, P.B})
        for (int32_t Next : Work.Vars[Var].Pairs)
          Push(Next);
  }
}

/// Loads are normalized: what remains of the capacity at a time is what is
/// left if every variable uses its least there.
void Presolver::pruneByMemory() {
  normalizeLoads();
  if (Infeasible || Work.Capacity.empty())
    return;
  Reason = "every strategy of a node exceeds the memory limit";
  RangeMinimum Room(Work.Capacity);
  for (size_t V = 0; V < Work.Vars.size() && !Infeasible; ++V) {
    if (!Alive[V])
      continue;
    std::vector<char> Keep(Work.Vars[V].size(), 1);
    for (const Load &L : Work.Vars[V].Loads) {
      Usage Least = Room(L.Begin, L.End);
      for (size_t S = 0; S < Keep.size(); ++S)
        Keep[S] &= L.Amount[S] <= Least;
    }
    keepValues(static_cast<int32_t>(V), Keep);
  }
}

/// Whether swapping `Worse` for `Better` never costs or uses more.
bool Presolver::dominates(int32_t Var, int32_t Better, int32_t Worse) const {
  const Variable &V = Work.Vars[Var];
  for (const Load &L : V.Loads)
    if (L.Amount[Better] > L.Amount[Worse])
      return false;
  __int128 Excess = V.Unary[Better] - V.Unary[Worse];
  for (int32_t Id : V.Pairs) {
    PairView Costs = view(Id, Var);
    int32_t Theirs = Work.Vars[Work.Pairs[Id].other(Var)].size();
    Cost Largest = -InfiniteCost;
    for (int32_t T = 0; T < Theirs; ++T) {
      Cost Old = Costs(Worse, T), New = Costs(Better, T);
      if (Old == InfiniteCost)
        continue;
      if (New == InfiniteCost)
        return false;
      Largest = std::max(Largest, New - Old);
    }
    Excess += Largest;
  }
  return Excess <= 0;
}

/// Changes with whatever may let one of its values dominate another, barring
/// coincidence, which costs a reduction and nothing else.
uint64_t Presolver::shapeOf(size_t Var) const {
  const Variable &V = Work.Vars[Var];
  uint64_t Shape =
      V.Unary.size() * 31 + V.Pairs.size() * 7919 + V.Loads.size() * 104729;
  for (int32_t Id : V.Pairs)
    Shape += Work.Pairs[Id].Table.size() * 1299709;
  return Shape;
}

void Presolver::removeDominated(int32_t Var,
                                const std::function<bool()> &Stop) {
  // All pairs of two thousand values; an edge of many nodes can have millions.
  constexpr int64_t MaxComparisons = 4'000'000;
  int32_t Size = Work.Vars[Var].size();
  std::vector<char> Keep(Size, 1);
  int64_t Left = MaxComparisons;
  for (int32_t Worse = 0; Worse < Size && Left > 0 && !Stop(); ++Worse)
    for (int32_t Better = 0; Better < Size && Keep[Worse]; ++Better)
      if (--Left;
          Better != Worse && Keep[Better] && dominates(Var, Better, Worse)) {
        Keep[Worse] = 0;
        Replacement[Var][Origin[Var][Worse]] = Origin[Var][Better];
      }
  keepValues(Var, Keep);
}

void Presolver::removeDominated(const std::function<bool()> &Stop) {
  ShapeWhenChecked.resize(Work.Vars.size(), 0);
  for (size_t V = 0; V < Work.Vars.size() && !Infeasible && !Stop(); ++V) {
    if (!Alive[V] || shapeOf(V) == ShapeWhenChecked[V])
      continue;
    ShapeWhenChecked[V] = shapeOf(V);
    removeDominated(static_cast<int32_t>(V), Stop);
  }
}

} // namespace heddle::solver
