//===- Exact.cpp - The cheapest assignment, or a proof of none ------------===//

#include "Exact/Exact.h"
#include "Bound/EliminationOrder.h"
#include "Exact/ParetoList.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace heddle::solver {

namespace {

/// What the lists and their trace may take.
constexpr size_t MaxBytes = size_t(400) << 20;
/// Above this many pairs of a bucket and a time, laying out would take longer
/// than the search is worth.
constexpr double MaxLayout = 3e8;

/// Times in which everything below a bucket uses the same.
using Range = Interval;

struct Bucket {
  int32_t Var = -1; ///< -1: only joins its children.
  std::vector<int32_t> Separator;
  std::vector<int32_t> Children;
  std::vector<int32_t> Breaks; ///< Times at which usage below may change.
  std::vector<Range> Full;     ///< Where anything below has a load.
  std::vector<Usage> Room;     ///< The least capacity in each of `Full`.
  std::vector<Range> Open;     ///< Where something elsewhere has one too.
  std::vector<int32_t> OpenInFull;
  std::vector<std::vector<int32_t>> FullInChild;  ///< By child, or -1.
  std::unordered_map<uint64_t, ParetoList> Lists; ///< By separator labels.
};

/// Either a variable and its label, or two earlier nodes.
struct TraceNode {
  int32_t Var = -1;
  int32_t Label = 0;
  uint32_t Left = 0, Right = 0;
};

class ExactSearch {
public:
  ExactSearch(const Model &M, const Dual::Reduced &Bound, const TreeBound *Tree,
              Cost Below, double MaxWork, const std::function<bool()> &Stop)
      : M(M), Below(Below), MaxWork(MaxWork), Stop(Stop), Red(Bound),
        Tree(Tree), Allowed(largestReduced(Bound, Below)),
        X(M.Vars.size(), -1) {}

  ExactResult run();

private:
  bool givesUp() {
    if (!GaveUp && (Work > MaxWork || bytes() > MaxBytes || Stop()))
      GaveUp = true;
    return GaveUp;
  }
  size_t bytes() const { return ListBytes + Trace.size() * sizeof(TraceNode); }
  bool layOut();
  void findRanges();
  uint64_t keyOf(const std::vector<int32_t> &Vars) const;
  Labels labelsOf(const std::vector<int32_t> &Vars, uint64_t Key) const;
  void process(Bucket &B);
  void extend(Bucket &B, const std::vector<int32_t> &Missing, size_t Next,
              double Reduced);
  double reducedOf(int32_t Var) const;
  void addEntries(Bucket &B);
  ParetoList ownEntry(const Bucket &B);
  ParetoList combine(const Bucket &B, const ParetoList &Have,
                     const ParetoList &Child,
                     const std::vector<int32_t> &FullInChild, double Limit);
  void label(uint64_t From, Labels &Result) const;

  const Model &M;
  Cost Below;
  double MaxWork;
  const std::function<bool()> &Stop;
  const Dual::Reduced &Red;
  const TreeBound *Tree;
  double Allowed; ///< No useful assignment has larger costs in `Red`.
  std::vector<Bucket> Buckets;
  std::vector<TraceNode> Trace;
  Labels X; ///< While a bucket is enumerated; -1: open.
  double Work = 0;
  size_t ListBytes = 0; ///< Of all buckets, and of the list being made.
  bool GaveUp = false;
};

bool ExactSearch::layOut() {
  std::vector<int32_t> All(M.Vars.size());
  std::iota(All.begin(), All.end(), 0);
  Random Unused(0);
  if (static_cast<double>(All.size() * M.Capacity.size()) > MaxLayout)
    return false;
  // Where a separator has more labels than a number can tell, all is lost.
  constexpr double MaxKeys = 1e18;
  EliminationOrder Order = chooseOrder(
      M, All, MaxKeys, static_cast<double>(All.size()) * MaxKeys, Unused);
  if (Order.Vars.size() < All.size())
    return false;
  std::vector<int32_t> Position(M.Vars.size());
  for (size_t I = 0; I < Order.Vars.size(); ++I)
    Position[Order.Vars[I]] = static_cast<int32_t>(I);
  Buckets.resize(Order.Vars.size());
  std::vector<int32_t> Roots;
  for (size_t I = 0; I < Buckets.size(); ++I) {
    Bucket &B = Buckets[I];
    B.Var = Order.Vars[I];
    B.Separator = Order.Separators[I];
    int32_t Parent = std::numeric_limits<int32_t>::max();
    for (int32_t V : B.Separator)
      Parent = std::min(Parent, Position[V]);
    if (B.Separator.empty())
      Roots.push_back(static_cast<int32_t>(I));
    else
      Buckets[Parent].Children.push_back(static_cast<int32_t>(I));
  }
  // Components are joined one after another.
  for (size_t R = 1; R < Roots.size(); ++R) {
    Bucket &B = Buckets.emplace_back();
    B.Children = {R == 1 ? Roots[0] : static_cast<int32_t>(Buckets.size()) - 2,
                  Roots[R]};
  }
  findRanges();
  return true;
}

/// For each of the outer ranges, the inner one that contains it, or -1.
std::vector<int32_t> containing(const std::vector<Range> &Outer,
                                const std::vector<Range> &Inner) {
  std::vector<int32_t> Result;
  size_t I = 0;
  for (const Range &O : Outer) {
    while (I < Inner.size() && Inner[I].End <= O.Begin)
      ++I;
    bool Within = I < Inner.size() && Inner[I].Begin < O.End;
    Result.push_back(Within ? static_cast<int32_t>(I) : -1);
  }
  return Result;
}

void ExactSearch::findRanges() {
  size_t Times = M.Capacity.size();
  std::vector<int32_t> Total(Times + 1, 0);
  auto Count = [](std::vector<int32_t> &Into, const Variable &V) {
    for (const Load &L : V.Loads)
      for (int32_t T = L.Begin; T < L.End; ++T)
        ++Into[T];
  };
  for (const Variable &V : M.Vars)
    Count(Total, V);
  std::vector<std::vector<int32_t>> LoadsBelow(Buckets.size());
  for (size_t I = 0; I < Buckets.size(); ++I) {
    Bucket &B = Buckets[I];
    auto &Here = LoadsBelow[I];
    Here.assign(Times + 1, 0);
    if (B.Var >= 0) {
      Count(Here, M.Vars[B.Var]);
      for (const Load &L : M.Vars[B.Var].Loads) {
        B.Breaks.push_back(L.Begin);
        B.Breaks.push_back(L.End);
      }
    }
    for (int32_t C : B.Children) {
      for (const Range &R : Buckets[C].Open) {
        B.Breaks.push_back(static_cast<int32_t>(R.Begin));
        B.Breaks.push_back(static_cast<int32_t>(R.End));
      }
      for (size_t T = 0; T < Times; ++T)
        Here[T] += LoadsBelow[C][T];
      LoadsBelow[C] = {};
    }
    std::ranges::sort(B.Breaks);
    B.Breaks.erase(std::ranges::unique(B.Breaks).begin(), B.Breaks.end());
    for (size_t K = 0; K + 1 < B.Breaks.size(); ++K) {
      int32_t Begin = B.Breaks[K], End = B.Breaks[K + 1];
      B.Room.push_back(*std::min_element(M.Capacity.begin() + Begin,
                                         M.Capacity.begin() + End));
      B.Full.push_back({Begin, End});
      // What lies outside is decided once this bucket is done.
      auto IsOpen = [&](int32_t T) { return Here[T] && Here[T] < Total[T]; };
      while (Begin < End && !IsOpen(Begin))
        ++Begin;
      while (Begin < End && !IsOpen(End - 1))
        --End;
      if (Begin < End) {
        B.Open.push_back({Begin, End});
        B.OpenInFull.push_back(static_cast<int32_t>(B.Full.size()) - 1);
      }
    }
    for (int32_t C : B.Children)
      B.FullInChild.push_back(containing(B.Full, Buckets[C].Open));
  }
}

uint64_t ExactSearch::keyOf(const std::vector<int32_t> &Vars) const {
  uint64_t Key = 0;
  for (int32_t V : Vars)
    Key = Key * M.Vars[V].size() + X[V];
  return Key;
}

Labels ExactSearch::labelsOf(const std::vector<int32_t> &Vars,
                             uint64_t Key) const {
  Labels Result(Vars.size());
  for (size_t I = Vars.size(); I-- > 0;) {
    auto Size = static_cast<uint64_t>(M.Vars[Vars[I]].size());
    Result[I] = static_cast<int32_t>(Key % Size);
    Key /= Size;
  }
  return Result;
}

/// What the label of `Var` adds to the reduced cost of the labels in `X`.
double ExactSearch::reducedOf(int32_t Var) const {
  double Sum = Red.Unary[Var][X[Var]];
  for (int32_t Id : M.Vars[Var].Pairs) {
    const Pair &P = M.Pairs[Id];
    if (X[P.other(Var)] < 0)
      continue;
    size_t At = static_cast<size_t>(X[P.A]) * M.Vars[P.B].size() + X[P.B];
    if (P.Table[At] >= InfiniteCost)
      return std::numeric_limits<double>::infinity();
    Sum += Red.Pairs[Id][At];
  }
  return Sum;
}

/// Enumerates the useful labels of the bucket's variables; those of the child
/// with the widest separator are known already.
void ExactSearch::process(Bucket &B) {
  std::vector<int32_t> Missing = B.Separator;
  if (B.Var >= 0)
    Missing.push_back(B.Var);
  const Bucket *Widest = nullptr;
  for (int32_t C : B.Children)
    if (!Widest || Buckets[C].Separator.size() > Widest->Separator.size())
      Widest = &Buckets[C];
  if (!Widest) {
    extend(B, Missing, 0, 0);
  } else {
    for (int32_t V : Widest->Separator)
      std::erase(Missing, V);
    std::vector<uint64_t> Keys;
    Keys.reserve(Widest->Lists.size());
    for (const auto &[Key, List] : Widest->Lists)
      Keys.push_back(Key);
    std::ranges::sort(Keys);
    for (uint64_t Key : Keys) {
      Labels Chosen = labelsOf(Widest->Separator, Key);
      double Reduced = Widest->Lists.at(Key)[0].Reduced;
      for (size_t I = 0; I < Chosen.size(); ++I) {
        int32_t V = Widest->Separator[I];
        X[V] = Chosen[I];
        Reduced += reducedOf(V);
      }
      if (Reduced <= Allowed)
        extend(B, Missing, 0, Reduced);
      for (int32_t V : Widest->Separator)
        X[V] = -1;
      if (givesUp())
        return;
    }
  }
  for (auto It = B.Lists.begin(); It != B.Lists.end(); ++It) {
    ParetoList &List = It->second;
    ListBytes -= List.bytes();
    List.project(B.OpenInFull);
    Work += List.removeDominated(MaxWork - Work);
    ListBytes += List.bytes();
    if (givesUp())
      return;
  }
  for (int32_t C : B.Children) {
    for (const auto &[Key, List] : Buckets[C].Lists)
      ListBytes -= List.bytes();
    Buckets[C].Lists = {};
  }
}

void ExactSearch::extend(Bucket &B, const std::vector<int32_t> &Missing,
                         size_t Next, double Reduced) {
  if (++Work, givesUp())
    return;
  if (Next == Missing.size()) {
    addEntries(B);
    return;
  }
  int32_t V = Missing[Next];
  for (int32_t S = 0; S < M.Vars[V].size(); ++S) {
    X[V] = S;
    double Sum = Reduced + reducedOf(V);
    if (Sum <= Allowed && Sum < std::numeric_limits<double>::infinity())
      extend(B, Missing, Next + 1, Sum);
  }
  X[V] = -1;
}

/// What the bucket's variable adds, its pairs with the separator included.
ParetoList ExactSearch::ownEntry(const Bucket &B) {
  ParetoList List(B.Full.size());
  std::vector<Usage> Used(B.Full.size(), 0);
  ParetoEntry E{0, 0, Trace.size()};
  if (B.Var >= 0) {
    const Variable &V = M.Vars[B.Var];
    int32_t Own = X[B.Var];
    E.Total = V.Unary[Own];
    E.Reduced = Red.Unary[B.Var][Own];
    for (int32_t Id : V.Pairs) {
      const Pair &P = M.Pairs[Id];
      if (X[P.other(B.Var)] < 0)
        continue;
      size_t At = static_cast<size_t>(X[P.A]) * M.Vars[P.B].size() + X[P.B];
      E.Total = addCosts(E.Total, P.Table[At]);
      E.Reduced += Red.Pairs[Id][At];
    }
    for (const Load &L : V.Loads)
      for (size_t D = 0; D < B.Full.size(); ++D)
        if (L.Begin <= B.Full[D].Begin && B.Full[D].End <= L.End)
          Used[D] = L.Amount[Own];
    Trace.push_back({B.Var, Own, 0, 0});
  } else {
    Trace.emplace_back();
  }
  List.add(E, Used.data());
  return List;
}

ParetoList ExactSearch::combine(const Bucket &B, const ParetoList &Have,
                                const ParetoList &Child,
                                const std::vector<int32_t> &FullInChild,
                                double Limit) {
  ParetoList Result(B.Full.size());
  std::vector<Usage> Used(B.Full.size());
  size_t Grown = 0;
  for (size_t I = 0; I < Have.size() && !givesUp(); ++I) {
    for (size_t J = 0; J < Child.size(); ++J) {
      double Reduced = Have[I].Reduced + Child[J].Reduced;
      if (Reduced > Limit) // lists ascend
        break;
      ++Work;
      Cost Total = addCosts(Have[I].Total, Child[J].Total);
      if (addCosts(Total, M.Constant) >= Below)
        continue;
      bool Fits = true;
      for (size_t D = 0; D < Used.size(); ++D) {
        Used[D] = Have.usage(I)[D];
        if (FullInChild[D] >= 0)
          Used[D] += Child.usage(J)[FullInChild[D]];
        Fits &= Used[D] <= B.Room[D];
      }
      if (Fits)
        Result.add({Total, Reduced, I << 32 | J}, Used.data());
    }
    ListBytes += Result.bytes() - Grown;
    Grown = Result.bytes();
  }
  ListBytes -= Grown;
  Work += Result.removeDominated(MaxWork - Work);
  for (size_t K = 0; K < Result.size(); ++K) {
    uint64_t From = Result[K].Trace;
    Result[K].Trace = Trace.size();
    Trace.push_back({-1, 0, static_cast<uint32_t>(Have[From >> 32].Trace),
                     static_cast<uint32_t>(Child[From & 0xffffffff].Trace)});
  }
  return Result;
}

/// Adds what the bucket and everything below it can come to at the labels in
/// `X`.
void ExactSearch::addEntries(Bucket &B) {
  ParetoList List = ownEntry(B);
  for (size_t D = 0; D < B.Full.size(); ++D)
    if (List.usage(0)[D] > B.Room[D])
      return;
  // What the bucket may cost at most, and its children at least.
  double Limit = Allowed;
  if (Tree && B.Var >= 0)
    Limit -= Tree->rest(static_cast<size_t>(&B - Buckets.data()), X);
  std::vector<const ParetoList *> Parts;
  for (int32_t C : B.Children) {
    auto Found = Buckets[C].Lists.find(keyOf(Buckets[C].Separator));
    if (Found == Buckets[C].Lists.end())
      return;
    Parts.push_back(&Found->second);
    Limit -= Found->second[0].Reduced;
  }
  if (List[0].Reduced > Limit)
    return;
  for (size_t C = 0; C < Parts.size(); ++C) {
    Limit += (*Parts[C])[0].Reduced;
    List = combine(B, List, *Parts[C], B.FullInChild[C], Limit);
    if (List.size() == 0)
      return;
  }
  auto Place = B.Lists.try_emplace(keyOf(B.Separator), B.Full.size()).first;
  Place->second.append(List);
  ListBytes += List.bytes();
}

void ExactSearch::label(uint64_t From, Labels &Result) const {
  std::vector<uint64_t> Pending{From};
  while (!Pending.empty()) {
    const TraceNode &N = Trace[Pending.back()];
    Pending.pop_back();
    if (N.Var >= 0) {
      Result[N.Var] = N.Label;
    } else if (N.Left || N.Right) {
      Pending.push_back(N.Left);
      Pending.push_back(N.Right);
    }
  }
}

ExactResult ExactSearch::run() {
  ExactResult Result;
  if (M.Vars.empty() || !layOut())
    return Result;
  // Node 0 stands for nothing.
  Trace.emplace_back();
  for (Bucket &B : Buckets) {
    process(B);
    if (givesUp()) {
      Result.Work = Work;
      return Result;
    }
  }
  Result.Complete = true;
  Result.Work = Work;
  const auto &Last = Buckets.back().Lists;
  if (Last.empty())
    return Result;
  const ParetoList &List = Last.begin()->second;
  // Nothing is open any more: a single entry is left.
  Labels Found(M.Vars.size(), 0);
  label(List[0].Trace, Found);
  if (costOf(M, Found) < Below)
    Result.Best = std::move(Found);
  return Result;
}

} // namespace

double largestReduced(const Dual::Reduced &Costs, Cost Below) {
  if (Below >= InfiniteCost)
    return std::numeric_limits<double>::infinity();
  auto Limit = static_cast<double>(Below);
  return Limit - 1 - Costs.Bound + 10 * Costs.Rounding + 1e-11 * Limit;
}

ExactResult solveExactly(const Model &M, const Dual::Reduced &Costs,
                         const TreeBound *Tree, Cost Below, double MaxWork,
                         const std::function<bool()> &Stop) {
  return ExactSearch(M, Costs, Tree, Below, MaxWork, Stop).run();
}

} // namespace heddle::solver
