//===- PresolveMerge.cpp - Reductions that remove variables ---------------===//

#include "Reduce/Presolve.h"

#include <algorithm>
#include <map>

namespace heddle::solver {

/// A table `f(a) + g(b)` moves into the unary costs.
void Presolver::makePairsSeparable() {
  for (size_t I = 0; I < Work.Pairs.size(); ++I) {
    if (!PairAlive[I])
      continue;
    const Pair &P = Work.Pairs[I];
    Variable &A = Work.Vars[P.A], &B = Work.Vars[P.B];
    size_t Width = B.Unary.size();
    // With the cheapest entry of row 0 as the origin, no part is negative.
    const Cost *First = P.Table.data();
    size_t Base = std::min_element(First, First + Width) - First;
    bool Separable = true;
    for (size_t R = 0; R < A.Unary.size() && Separable; ++R) {
      const Cost *Row = First + R * Width;
      for (size_t C = 0; C < Width; ++C)
        Separable &= Row[C] < InfiniteCost &&
                     Row[C] - Row[Base] == First[C] - First[Base];
    }
    if (!Separable)
      continue;
    for (size_t R = 0; R < A.Unary.size(); ++R)
      A.Unary[R] = addCosts(A.Unary[R], First[R * Width + Base]);
    for (size_t C = 0; C < Width; ++C)
      B.Unary[C] = addCosts(B.Unary[C], First[C] - First[Base]);
    dropPair(static_cast<int32_t>(I));
  }
}

/// Makes loads disjoint and ascending again after lists were joined.
static void flattenLoads(Variable &V) {
  std::map<int32_t, std::vector<Usage>> Steps;
  size_t Size = V.Unary.size();
  for (const Load &L : V.Loads) {
    auto &Up = Steps[L.Begin], &Down = Steps[L.End];
    Up.resize(Size);
    Down.resize(Size);
    for (size_t S = 0; S < Size; ++S) {
      Up[S] += L.Amount[S];
      Down[S] -= L.Amount[S];
    }
  }
  V.Loads.clear();
  std::vector<Usage> Level(Size, 0);
  for (auto It = Steps.begin(); It != Steps.end(); ++It) {
    for (size_t S = 0; S < Size; ++S)
      Level[S] += It->second[S];
    auto Next = std::next(It);
    if (Next == Steps.end() ||
        std::ranges::all_of(Level, [](Usage U) { return U == 0; }))
      continue;
    if (!V.Loads.empty() && V.Loads.back().End == It->first &&
        V.Loads.back().Amount == Level)
      V.Loads.back().End = Next->first;
    else
      V.Loads.push_back({It->first, Next->first, Level});
  }
}

/// For a pair whose finite entries match every value of A with exactly one of
/// B and the other way round: the matches by value of A; else empty.
static std::vector<int32_t> bijection(const Pair &P, int32_t SizeA,
                                      int32_t SizeB) {
  if (SizeA != SizeB)
    return {};
  std::vector<int32_t> Match(SizeA, -1);
  std::vector<char> Taken(SizeB, 0);
  for (int32_t I = 0; I < SizeA; ++I)
    for (int32_t J = 0; J < SizeB; ++J)
      if (P.Table[static_cast<size_t>(I) * SizeB + J] < InfiniteCost) {
        if (Match[I] >= 0 || Taken[J])
          return {};
        Match[I] = J;
        Taken[J] = 1;
      }
  return std::ranges::count(Match, -1) ? std::vector<int32_t>() : Match;
}

void Presolver::mergeBijections() {
  std::vector<char> Joined(Work.Vars.size(), 0);
  for (size_t I = 0; I < Work.Pairs.size(); ++I) {
    if (!PairAlive[I])
      continue;
    int32_t A = Work.Pairs[I].A, B = Work.Pairs[I].B;
    std::vector<int32_t> Match =
        bijection(Work.Pairs[I], Work.Vars[A].size(), Work.Vars[B].size());
    if (Match.empty())
      continue;
    if (Work.Vars[A].Pairs.size() < Work.Vars[B].Pairs.size()) {
      std::vector<int32_t> Inverse(Match.size());
      for (size_t S = 0; S < Match.size(); ++S)
        Inverse[Match[S]] = static_cast<int32_t>(S);
      std::swap(A, B);
      Match = std::move(Inverse);
    }
    mergeInto(A, B, Match, static_cast<int32_t>(I));
    Joined[A] = 1;
  }
  for (size_t V = 0; V < Work.Vars.size(); ++V)
    if (Joined[V] && Alive[V])
      flattenLoads(Work.Vars[V]);
}

/// Joins `Gone` to `Kept`, whose value s stands for `Map[s]` of `Gone`.
void Presolver::mergeInto(int32_t Kept, int32_t Gone,
                          const std::vector<int32_t> &Map, int32_t PairId) {
  Variable &K = Work.Vars[Kept], &G = Work.Vars[Gone];
  PairView Costs = view(PairId, Kept);
  Removal R{Gone, {Kept}, {std::vector<int32_t>(FirstSize[Kept], -1)}, {}};
  for (int32_t S = 0; S < K.size(); ++S) {
    K.Unary[S] =
        addCosts(K.Unary[S], addCosts(G.Unary[Map[S]], Costs(S, Map[S])));
    R.IndexOf[0][Origin[Kept][S]] = S;
    R.Choice.push_back(Origin[Gone][Map[S]]);
  }
  Removals.push_back(std::move(R));
  for (Load &L : G.Loads) {
    std::vector<Usage> Amount(Map.size());
    for (size_t S = 0; S < Map.size(); ++S)
      Amount[S] = L.Amount[Map[S]];
    K.Loads.push_back({L.Begin, L.End, std::move(Amount)});
  }
  dropPair(PairId);
  while (!G.Pairs.empty()) {
    int32_t Id = G.Pairs.back();
    int32_t Third = Work.Pairs[Id].other(Gone);
    PairView Old = view(Id, Gone);
    std::vector<Cost> Table;
    Table.reserve(Work.Pairs[Id].Table.size());
    for (int32_t S : Map)
      for (int32_t T = 0; T < Work.Vars[Third].size(); ++T)
        Table.push_back(Old(S, T));
    dropPair(Id);
    addPair(Kept, Third, std::move(Table));
  }
  Alive[Gone] = 0;
  G = {};
}

void Presolver::eliminateFree(const std::function<bool()> &Stop) {
  std::vector<int32_t> Queue;
  for (size_t V = Work.Vars.size(); V-- > 0;)
    if (Alive[V])
      Queue.push_back(static_cast<int32_t>(V));
  while (!Queue.empty() && !Stop()) {
    int32_t Var = Queue.back();
    Queue.pop_back();
    const Variable &V = Work.Vars[Var];
    if (!Alive[Var] ||
        (V.size() > 1 && (!V.Loads.empty() || V.Pairs.size() > 2)))
      continue;
    std::vector<int32_t> Neighbours;
    Neighbours.reserve(V.Pairs.size());
    for (int32_t Id : V.Pairs)
      Neighbours.push_back(Work.Pairs[Id].other(Var));
    eliminate(Var);
    Queue.insert(Queue.end(), Neighbours.begin(), Neighbours.end());
  }
}

/// Replaces a variable by the cost of its best value, given its neighbours. It
/// has a single value, or no load and at most two neighbours.
void Presolver::eliminate(int32_t Var) {
  Variable &V = Work.Vars[Var];
  if (V.size() == 1) {
    for (const Load &L : V.Loads)
      for (int32_t T = L.Begin; T < L.End; ++T)
        Work.Capacity[T] -= L.Amount[0];
    Work.Constant = addCosts(Work.Constant, V.Unary[0]);
    Removals.push_back({Var, {}, {}, {Origin[Var][0]}});
    while (!V.Pairs.empty()) {
      int32_t Id = V.Pairs.back();
      Variable &Other = Work.Vars[Work.Pairs[Id].other(Var)];
      PairView Costs = view(Id, Var);
      for (int32_t S = 0; S < Other.size(); ++S)
        Other.Unary[S] = addCosts(Other.Unary[S], Costs(0, S));
      dropPair(Id);
    }
    Alive[Var] = 0;
    return;
  }
  Removal R{Var, {}, {}, {}};
  std::vector<int32_t> Ids = V.Pairs;
  int32_t Sizes[2] = {1, 1};
  for (size_t I = 0; I < Ids.size(); ++I) {
    int32_t Other = Work.Pairs[Ids[I]].other(Var);
    R.Given.push_back(Other);
    auto &Index = R.IndexOf.emplace_back(FirstSize[Other], -1);
    Sizes[I] = Work.Vars[Other].size();
    for (int32_t S = 0; S < Sizes[I]; ++S)
      Index[Origin[Other][S]] = S;
  }
  std::vector<Cost> Best;
  for (int32_t I = 0; I < Sizes[0]; ++I)
    for (int32_t J = 0; J < Sizes[1]; ++J) {
      Cost Least = InfiniteCost;
      int32_t Choice = 0;
      for (int32_t S = 0; S < V.size(); ++S) {
        Cost C = V.Unary[S];
        if (!Ids.empty())
          C = addCosts(C, view(Ids[0], Var)(S, I));
        if (Ids.size() > 1)
          C = addCosts(C, view(Ids[1], Var)(S, J));
        if (C < Least) {
          Least = C;
          Choice = S;
        }
      }
      Best.push_back(Least);
      R.Choice.push_back(Origin[Var][Choice]);
    }
  for (int32_t Id : Ids)
    dropPair(Id);
  if (Ids.empty()) {
    Work.Constant = addCosts(Work.Constant, Best[0]);
  } else if (Ids.size() == 1) {
    Variable &Other = Work.Vars[R.Given[0]];
    for (int32_t S = 0; S < Other.size(); ++S)
      Other.Unary[S] = addCosts(Other.Unary[S], Best[S]);
  } else {
    addPair(R.Given[0], R.Given[1], std::move(Best));
  }
  Alive[Var] = 0;
  Removals.push_back(std::move(R));
}

} // namespace heddle::solver
