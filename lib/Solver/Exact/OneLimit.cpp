//===- OneLimit.cpp - The optimum where one time binds --------------------===//

#include "Exact/OneLimit.h"
#include "Exact/RunList.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle::solver {

namespace {

constexpr size_t MaxTrace = 12'000'000; ///< Nodes: about 350 MB.

class OneLimitSearch {
public:
  OneLimitSearch(const Model &M, const Dual::Reduced &Costs,
                 const TreeBound &Bound, Cost Below, double MaxWork,
                 size_t MaxList, const std::function<bool()> &Stop)
      : M(M), Tree(Bound.tables()), Below(Below), MaxWork(MaxWork),
        MaxList(MaxList), Stop(Stop),
        Capacity(M.Capacity.empty() ? std::numeric_limits<Usage>::max()
                                    : M.Capacity[0]),
        Price(M.Capacity.empty() ? 0 : Bound.prices()[0]),
        Allowed(largestReduced(Costs, Below)), X(M.Vars.size(), 0),
        Buckets(M.Vars.size()) {}

  ExactResult run();

private:
  struct Bucket {
    std::vector<int32_t> Children;
    std::vector<int32_t> IndexOf; ///< Separator entry -> list, or -1.
    std::vector<RunList> Lists;
  };

  bool givesUp() {
    if (!GaveUp && (Work > MaxWork || Trace.size() > MaxTrace || Stop()))
      GaveUp = true;
    return GaveUp;
  }
  void process(size_t Index);
  const RunList *listFor(size_t Child) const;
  void extend(size_t Index, double Limit, RunList &Result);
  bool ownRun(size_t Index, Run &Own);
  RunList combine(const RunList &A, const RunList &B, double Limit);
  bool trim(Run &R) const;
  void thinOut(RunList &List);
  void findStep(const RunList &List);
  ExactResult finish();

  const Model &M;
  const Elimination &Tree;
  Cost Below;
  double MaxWork;
  size_t MaxList;
  const std::function<bool()> &Stop;
  Usage Capacity;
  double Price;
  double Allowed; ///< No useful assignment has a larger priced cost.
  RunStep Step;
  RunTrace Trace;
  Labels X;
  std::vector<Bucket> Buckets;
  std::vector<int32_t> Roots;
  double Work = 0;
  bool GaveUp = false;
  bool Thinned = false;
};

/// The list of a child for the labels in `X`; null if nothing there is useful.
const RunList *OneLimitSearch::listFor(size_t Child) const {
  int32_t Found = Buckets[Child].IndexOf[Tree.entryOf(Child, X)];
  return Found < 0 ? nullptr : &Buckets[Child].Lists[Found];
}

/// What the bucket's variable adds, its pairs with the separator included.
bool OneLimitSearch::ownRun(size_t Index, Run &Own) {
  int32_t Var = Tree.members()[Index];
  const Variable &V = M.Vars[Var];
  Own = {};
  Own.Total = V.Unary[X[Var]];
  for (int32_t Id : V.Pairs) {
    const Pair &P = M.Pairs[Id];
    if (Tree.position(P.other(Var)) < static_cast<int32_t>(Index))
      continue;
    size_t At = static_cast<size_t>(X[P.A]) * M.Vars[P.B].size() + X[P.B];
    Own.Total = addCosts(Own.Total, P.Table[At]);
  }
  for (const Load &L : V.Loads)
    Own.Used += L.Amount[X[Var]];
  Own.Priced =
      static_cast<double>(Own.Total) + Price * static_cast<double>(Own.Used);
  return Own.Total < InfiniteCost && Own.Used <= Capacity;
}

/// Leaves the points that keep the limit and cost less than what is known.
bool OneLimitSearch::trim(Run &R) const {
  if (R.Used > Capacity)
    return false;
  Cost Largest = Below - 1 - M.Constant;
  if (R.Count == 1)
    return R.Total <= Largest;
  Usage Fits = (Capacity - R.Used) / Step.More;
  if (Fits < Usage(R.Count) - 1)
    R.Count = static_cast<uint32_t>(Fits) + 1;
  if (R.Total > Largest) {
    Cost Skip = (R.Total - Largest + Step.Less - 1) / Step.Less;
    if (Skip >= Cost(R.Count))
      return false;
    R.Total -= Skip * Step.Less;
    R.Used += Skip * Step.More;
    R.First += static_cast<uint32_t>(Skip);
    R.Count -= static_cast<uint32_t>(Skip);
  }
  return true;
}

/// The sums of two lists whose priced cost is at most `Limit`.
RunList OneLimitSearch::combine(const RunList &A, const RunList &B,
                                double Limit) {
  RunList Result;
  std::vector<std::pair<uint32_t, uint32_t>> Parts;
  for (uint32_t I = 0; I < A.size() && !givesUp(); ++I)
    for (uint32_t J = 0; J < B.size(); ++J) {
      double Priced = A[I].Priced + B[J].Priced;
      if (Priced > Limit) // lists ascend
        break;
      ++Work;
      Run R{A[I].Total + B[J].Total,
            A[I].Used + B[J].Used,
            A[I].Count + B[J].Count - 1,
            0,
            static_cast<uint32_t>(Parts.size()),
            Priced};
      if (!trim(R))
        continue;
      Parts.emplace_back(I, J);
      Result.push_back(R);
    }
  removeDominated(Result, Step, Work, MaxWork);
  for (Run &R : Result) {
    auto [I, J] = Parts[R.Trace];
    R.Trace = Trace.addSum(A[I], B[J]);
  }
  joinRuns(Result, Step, Trace);
  thinOut(Result);
  return Result;
}

/// Appends what the bucket and everything below it can come to at the labels
/// in `X`, at priced costs of at most `Limit`.
void OneLimitSearch::extend(size_t Index, double Limit, RunList &Result) {
  Run Own;
  ++Work;
  if (!ownRun(Index, Own))
    return;
  std::vector<const RunList *> Parts;
  for (int32_t C : Buckets[Index].Children) {
    Parts.push_back(listFor(C));
    if (!Parts.back())
      return;
    Limit -= Parts.back()->front().Priced;
  }
  if (Own.Priced > Limit || !trim(Own))
    return;
  int32_t Var = Tree.members()[Index];
  Own.Trace = Trace.addLabel(Var, X[Var]);
  RunList Sum{Own};
  for (const RunList *Part : Parts) {
    Limit += Part->front().Priced;
    Sum = combine(Sum, *Part, Limit);
    if (Sum.empty())
      return;
  }
  Result.insert(Result.end(), Sum.begin(), Sum.end());
}

/// Keeps the best of those that use similarly much.
void OneLimitSearch::thinOut(RunList &List) {
  if (!MaxList || List.size() <= MaxList)
    return;
  Thinned = true;
  auto [Low, High] = std::ranges::minmax(List, {}, &Run::Used);
  auto From = static_cast<double>(Low.Used);
  double Width = (static_cast<double>(High.Used) - From) / MaxList + 1;
  std::vector<char> Taken(MaxList + 1, 0);
  std::erase_if(List, [&](const Run &R) { // ascends in price
    auto Place =
        static_cast<size_t>((static_cast<double>(R.Used) - From) / Width);
    return std::exchange(Taken[Place], 1) != 0;
  });
}

/// Points of a part that cost the same at the price tell the step of the runs:
/// the closest two, since others may be several steps apart.
void OneLimitSearch::findStep(const RunList &List) {
  if (Step.More || List.size() < 2 || Price <= 0)
    return;
  RunList Sorted = List; // ascends in price
  for (size_t Begin = 0, End; Begin < Sorted.size(); Begin = End) {
    double Same = 1e-10 * std::abs(Sorted[Begin].Priced);
    for (End = Begin + 1; End < Sorted.size() &&
                          Sorted[End].Priced - Sorted[End - 1].Priced <= Same;)
      ++End;
    std::sort(Sorted.begin() + Begin, Sorted.begin() + End,
              [](const Run &A, const Run &B) { return A.Used < B.Used; });
    for (size_t I = Begin + 1; I < End; ++I) {
      Usage More = Sorted[I].Used - Sorted[I - 1].Used;
      Cost Less = Sorted[I - 1].Total - Sorted[I].Total;
      double Worth = Price * static_cast<double>(More);
      if (More <= 0 || Less <= 0 ||
          std::abs(static_cast<double>(Less) - Worth) > 1e-9 * Worth)
        continue;
      if (!Step.More || More < Step.More)
        Step = {More, Less};
    }
  }
}

void OneLimitSearch::process(size_t Index) {
  Bucket &B = Buckets[Index];
  int32_t Var = Tree.members()[Index];
  size_t Entries = Tree.entryCount(Index);
  B.IndexOf.assign(Entries, -1);
  for (size_t Entry = 0; Entry < Entries && !givesUp(); ++Entry) {
    double Limit = Allowed - Tree.restAt(Index, Entry);
    if (!(Tree.leastAt(Index, Entry) <= Limit))
      continue;
    Tree.setLabels(Index, Entry, X);
    RunList List;
    for (int32_t S = 0; S < M.Vars[Var].size(); ++S) {
      X[Var] = S;
      extend(Index, Limit, List);
    }
    if (List.empty())
      continue;
    removeDominated(List, Step, Work, MaxWork);
    findStep(List);
    joinRuns(List, Step, Trace);
    thinOut(List);
    B.IndexOf[Entry] = static_cast<int32_t>(B.Lists.size());
    B.Lists.push_back(std::move(List));
  }
  for (int32_t C : B.Children)
    Buckets[C] = {};
  if (Tree.parent(Index) < 0)
    Roots.push_back(static_cast<int32_t>(Index));
  else
    Buckets[Tree.parent(Index)].Children.push_back(static_cast<int32_t>(Index));
}

/// Joins the components; the cheapest point that is left is the optimum.
ExactResult OneLimitSearch::finish() {
  ExactResult Result;
  Result.Complete = true;
  double Limit = Allowed;
  for (int32_t R : Roots) {
    if (Buckets[R].Lists.empty()) {
      Result.Complete = !Thinned;
      Result.Work = Work;
      return Result;
    }
    Limit -= Buckets[R].Lists[0].front().Priced;
  }
  RunList Sum{Run{}};
  for (int32_t R : Roots) {
    const RunList &List = Buckets[R].Lists[0];
    Limit += List.front().Priced;
    Sum = combine(Sum, List, Limit);
  }
  Result.Work = Work;
  Result.Complete = !GaveUp && !Thinned;
  if (GaveUp || Sum.empty())
    return Result;
  auto lastOf = [&](const Run &R) {
    return R.Total - Cost(R.Count - 1) * Step.Less;
  };
  const Run *Best = &Sum.front();
  for (const Run &R : Sum)
    if (lastOf(R) < lastOf(*Best))
      Best = &R;
  Labels Found(M.Vars.size(), 0);
  Trace.label(Best->Trace, Best->First + Best->Count - 1, Found);
  if (costOf(M, Found) < Below)
    Result.Best = std::move(Found);
  return Result;
}

ExactResult OneLimitSearch::run() {
  for (size_t I = 0; I < Buckets.size(); ++I) {
    process(I);
    if (givesUp()) {
      ExactResult Result;
      Result.Work = Work;
      return Result;
    }
  }
  return finish();
}

} // namespace

ExactResult solveOneLimit(const Model &M, const Dual::Reduced &Costs,
                          const TreeBound &Tree, Cost Below, double MaxWork,
                          size_t MaxList, const std::function<bool()> &Stop) {
  return OneLimitSearch(M, Costs, Tree, Below, MaxWork, MaxList, Stop).run();
}

} // namespace heddle::solver
