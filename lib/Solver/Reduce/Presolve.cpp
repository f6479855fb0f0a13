//===- Presolve.cpp - From a problem to a reduced model -------------------===//

#include "Reduce/Presolve.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace heddle::solver {

std::vector<int64_t> maximalTimes(const Problem &P) {
  struct Change {
    bool Begins = false, Ends = false;
  };
  std::map<int64_t, Change> Changes;
  for (const Node &N : P.Nodes)
    if (!N.Live.empty()) {
      Changes[N.Live.Begin].Begins = true;
      Changes[N.Live.End].Ends = true;
    }
  std::vector<int64_t> Times;
  for (auto It = Changes.begin(); It != Changes.end(); ++It) {
    auto Next = std::next(It);
    if (It->second.Begins && Next != Changes.end() && Next->second.Ends)
      Times.push_back(It->first);
  }
  return Times;
}

Presolver::Presolver(const Problem &P) : NodeCount(P.Nodes.size()) {
  addNodes(P);
  addEdges(P);
  for (int32_t Size : FirstSize)
    Replacement.emplace_back(Size, -1);
}

void Presolver::addNodes(const Problem &P) {
  std::vector<int64_t> Times;
  if (P.UsageLimit)
    Times = maximalTimes(P);
  auto Position = [&](int64_t Time) {
    return static_cast<int32_t>(std::ranges::lower_bound(Times, Time) -
                                Times.begin());
  };
  Work.Capacity.assign(Times.size(), P.UsageLimit.value_or(0));
  TimeOf.resize(Times.size());
  std::iota(TimeOf.begin(), TimeOf.end(), 0);
  for (const Node &N : P.Nodes) {
    Variable V;
    V.Unary.reserve(N.Costs.size());
    for (Cost C : N.Costs)
      V.Unary.push_back(std::min(C, InfiniteCost));
    Load L{Position(N.Live.Begin), Position(N.Live.End), N.Usages};
    if (L.Begin < L.End)
      V.Loads.push_back(std::move(L));
    Origin.emplace_back(N.Costs.size());
    std::iota(Origin.back().begin(), Origin.back().end(), 0);
    Work.Vars.push_back(std::move(V));
  }
  for (const Variable &V : Work.Vars)
    FirstSize.push_back(V.size());
  Alive.assign(Work.Vars.size(), 1);
}

void Presolver::addEdges(const Problem &P) {
  for (const Edge &E : P.Edges) {
    bool Distinct = true;
    for (size_t I = 0; I < E.Nodes.size(); ++I)
      for (size_t J = 0; J < I; ++J)
        Distinct &= E.Nodes[I] != E.Nodes[J];
    if (E.Nodes.size() == 1) {
      Variable &V = Work.Vars[E.Nodes[0]];
      for (int32_t S = 0; S < V.size(); ++S)
        V.Unary[S] = addCosts(V.Unary[S], std::min(E.Costs[S], InfiniteCost));
    } else if (E.Nodes.size() == 2 && Distinct) {
      std::vector<Cost> Table(E.Costs);
      for (Cost &C : Table)
        C = std::min(C, InfiniteCost);
      addPair(E.Nodes[0], E.Nodes[1], std::move(Table));
    } else {
      addWideEdge(P, E);
    }
  }
}

/// An edge over three or more nodes, or one that names a node twice, becomes a
/// variable of its own whose values are the combinations of finite cost; a
/// pair ties it to each of its nodes.
void Presolver::addWideEdge(const Problem &P, const Edge &E) {
  std::vector<uint32_t> Distinct(E.Nodes);
  std::ranges::sort(Distinct);
  Distinct.erase(std::ranges::unique(Distinct).begin(), Distinct.end());
  std::vector<std::vector<int32_t>> Values(Distinct.size());
  Variable V;
  for (size_t Entry = 0; Entry < E.Costs.size(); ++Entry) {
    if (E.Costs[Entry] >= InfiniteCost)
      continue;
    std::vector<int32_t> Chosen(Distinct.size(), -1);
    bool Consistent = true;
    size_t Rest = Entry;
    for (size_t I = E.Nodes.size(); I-- > 0;) {
      size_t Size = P.Nodes[E.Nodes[I]].Costs.size();
      int32_t Value = static_cast<int32_t>(Rest % Size);
      Rest /= Size;
      int32_t &Slot = Chosen[std::ranges::lower_bound(Distinct, E.Nodes[I]) -
                             Distinct.begin()];
      Consistent &= Slot < 0 || Slot == Value;
      Slot = Value;
    }
    if (!Consistent)
      continue;
    V.Unary.push_back(E.Costs[Entry]);
    for (size_t I = 0; I < Distinct.size(); ++I)
      Values[I].push_back(Chosen[I]);
  }
  int32_t Id = static_cast<int32_t>(Work.Vars.size());
  int32_t Size = V.size();
  if (Size == 0) {
    Infeasible = true;
    Reason = "an edge forbids every combination of its nodes";
  }
  Origin.emplace_back(Size);
  std::iota(Origin.back().begin(), Origin.back().end(), 0);
  FirstSize.push_back(Size);
  Alive.push_back(1);
  Work.Vars.push_back(std::move(V));
  for (size_t I = 0; I < Distinct.size(); ++I) {
    int32_t Node = static_cast<int32_t>(Distinct[I]);
    int32_t NodeSize = Work.Vars[Node].size();
    std::vector<Cost> Table(static_cast<size_t>(Size) * NodeSize, InfiniteCost);
    for (int32_t S = 0; S < Size; ++S)
      Table[static_cast<size_t>(S) * NodeSize + Values[I][S]] = 0;
    addPair(Id, Node, std::move(Table));
  }
  WideEdges.push_back({Id, std::move(Distinct), std::move(Values)});
}

static uint64_t pairKey(int32_t A, int32_t B) {
  return static_cast<uint64_t>(std::min(A, B)) << 32 |
         static_cast<uint32_t>(std::max(A, B));
}

int32_t Presolver::findPair(int32_t A, int32_t B) const {
  auto Found = PairOf.find(pairKey(A, B));
  return Found == PairOf.end() ? -1 : Found->second;
}

/// Adds a table over (A, B); joins it with the pair that is there already.
void Presolver::addPair(int32_t A, int32_t B, std::vector<Cost> Table) {
  int32_t Id = findPair(A, B);
  if (Id < 0) {
    Id = static_cast<int32_t>(Work.Pairs.size());
    PairOf[pairKey(A, B)] = Id;
    Work.Pairs.push_back({A, B, std::move(Table)});
    PairAlive.push_back(1);
    Work.Vars[A].Pairs.push_back(Id);
    Work.Vars[B].Pairs.push_back(Id);
    return;
  }
  Pair &P = Work.Pairs[Id];
  int32_t SizeA = Work.Vars[A].size(), SizeB = Work.Vars[B].size();
  for (int32_t I = 0; I < SizeA; ++I)
    for (int32_t J = 0; J < SizeB; ++J) {
      size_t There = P.A == A ? static_cast<size_t>(I) * SizeB + J
                              : static_cast<size_t>(J) * SizeA + I;
      P.Table[There] =
          addCosts(P.Table[There], Table[static_cast<size_t>(I) * SizeB + J]);
    }
}

void Presolver::detach(int32_t Var, int32_t PairId) {
  auto &List = Work.Vars[Var].Pairs;
  auto Found = std::ranges::find(List, PairId);
  *Found = List.back();
  List.pop_back();
}

void Presolver::dropPair(int32_t Id) {
  Pair &P = Work.Pairs[Id];
  detach(P.A, Id);
  detach(P.B, Id);
  PairOf.erase(pairKey(P.A, P.B));
  PairAlive[Id] = 0;
  P.Table = {};
}

/// Grows smaller with every reduction.
size_t Presolver::measure() const {
  size_t Sum = Work.Capacity.size();
  for (size_t V = 0; V < Work.Vars.size(); ++V)
    if (Alive[V])
      Sum += 1 + Work.Vars[V].Unary.size();
  for (size_t P = 0; P < Work.Pairs.size(); ++P)
    Sum += PairAlive[P];
  return Sum;
}

bool Presolver::run(const std::function<bool()> &Stop) {
  // Each of these leaves the optimum alone and asks nothing of the others'
  // order; cheap ones come first so that dear ones see less.
  const std::function<void()> Steps[] = {
      [&] { makeArcConsistent(Stop); }, [&] { reduceTimes(); },
      [&] { pruneByMemory(); },         [&] { makeArcConsistent(Stop); },
      [&] { makePairsSeparable(); },    [&] { mergeBijections(); },
      [&] { removeDominated(Stop); },   [&] { eliminateFree(Stop); }};
  size_t Before, After = measure();
  do {
    Before = After;
    for (const auto &Step : Steps) {
      if (Infeasible || Stop())
        break;
      Step();
    }
    After = measure();
    // The last few values of a large problem are not worth another round.
  } while (!Infeasible && !Stop() && After < Before - Before / 500);
  if (!Infeasible)
    reduceTimes();
  return !Infeasible;
}

Model Presolver::extract() const {
  Model M;
  M.Capacity = Work.Capacity;
  M.Constant = Work.Constant;
  std::vector<int32_t> NumberOf(Work.Vars.size(), -1);
  for (size_t V = 0; V < Work.Vars.size(); ++V)
    if (Alive[V]) {
      NumberOf[V] = static_cast<int32_t>(M.Vars.size());
      M.Vars.push_back(Work.Vars[V]);
      M.Vars.back().Pairs.clear();
    }
  for (size_t I = 0; I < Work.Pairs.size(); ++I)
    if (PairAlive[I]) {
      const Pair &P = Work.Pairs[I];
      int32_t Id = static_cast<int32_t>(M.Pairs.size());
      M.Pairs.push_back({NumberOf[P.A], NumberOf[P.B], P.Table});
      M.Vars[NumberOf[P.A]].Pairs.push_back(Id);
      M.Vars[NumberOf[P.B]].Pairs.push_back(Id);
    }
  return M;
}

ModelNames Presolver::names() const {
  ModelNames Names;
  for (size_t V = 0; V < Work.Vars.size(); ++V)
    if (Alive[V]) {
      Names.Vars.push_back(static_cast<int32_t>(V));
      Names.Values.push_back(Origin[V]);
    }
  Names.Times = TimeOf;
  return Names;
}

void Presolver::restrict(const std::vector<std::vector<char>> &Keep) {
  size_t Number = 0;
  for (size_t V = 0; V < Work.Vars.size(); ++V)
    if (Alive[V])
      keepValues(static_cast<int32_t>(V), Keep[Number++]);
}

Assignment Presolver::expand(const Labels &X) const {
  Assignment A(Work.Vars.size(), 0);
  size_t Number = 0;
  for (size_t V = 0; V < Work.Vars.size(); ++V)
    if (Alive[V])
      A[V] = Origin[V][X[Number++]];
  for (size_t R = Removals.size(); R-- > 0;) {
    const Removal &Gone = Removals[R];
    size_t Entry = 0;
    for (size_t I = 0; I < Gone.Given.size(); ++I) {
      const auto &Index = Gone.IndexOf[I];
      int32_t Size = 1 + *std::ranges::max_element(Index);
      Entry = Entry * Size + Index[A[Gone.Given[I]]];
    }
    A[Gone.Var] = Gone.Choice[Entry];
  }
  A.resize(NodeCount);
  return A;
}

std::optional<Labels> Presolver::project(const Assignment &A) const {
  Assignment Full = A;
  for (const WideEdge &E : WideEdges) {
    int32_t Size = FirstSize[E.Var], Value = 0;
    auto Matches = [&](int32_t S) {
      for (size_t I = 0; I < E.Nodes.size(); ++I)
        if (E.Values[I][S] != A[E.Nodes[I]])
          return false;
      return true;
    };
    while (Value < Size && !Matches(Value))
      ++Value;
    if (Value == Size)
      return std::nullopt;
    Full.push_back(Value);
  }
  Labels X;
  for (size_t V = 0; V < Work.Vars.size(); ++V) {
    if (!Alive[V])
      continue;
    int32_t Value = Full[V];
    while (Replacement[V][Value] >= 0)
      Value = Replacement[V][Value];
    auto Found = std::ranges::find(Origin[V], Value);
    if (Found == Origin[V].end())
      return std::nullopt;
    X.push_back(static_cast<int32_t>(Found - Origin[V].begin()));
  }
  return X;
}

} // namespace heddle::solver
