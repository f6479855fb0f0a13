//===- RunList.cpp - What a part can cost and use at one time -------------===//

#include "Exact/RunList.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace heddle::solver {

namespace {

using Wide = __int128;

/// A run on the grid of its step: its points are
/// `Rest + k * More` for `From <= k <= To`, at cost `Base - k * Less`.
struct GridRun {
  Usage Rest;
  int64_t From, To;
  Wide Base;
};

GridRun onGrid(const Run &R, const RunStep &Step) {
  int64_t From = R.Used / Step.More;
  return {R.Used % Step.More, From, From + int64_t(R.Count) - 1,
          R.Total + static_cast<Wide>(From) * Step.Less};
}

/// A run and where it lies.
struct Item {
  GridRun G;
  Run R;
};

std::vector<Item> itemsOf(const RunList &List, const RunStep &Step) {
  std::vector<Item> Items;
  Items.reserve(List.size());
  for (const Run &R : List)
    Items.push_back({onGrid(R, Step), R});
  return Items;
}

void sortByPrice(RunList &List) {
  std::ranges::sort(List, [](const Run &A, const Run &B) {
    if (A.Priced != B.Priced)
      return A.Priced < B.Priced;
    return A.Total != B.Total ? A.Total < B.Total : A.Used < B.Used;
  });
}

/// Points of single-point runs that a cheaper single-point run beats.
void sweepSingles(RunList &List, double &Work) {
  Work += static_cast<double>(List.size());
  std::ranges::sort(List, [](const Run &A, const Run &B) {
    if (A.Total != B.Total)
      return A.Total < B.Total;
    return A.Used != B.Used ? A.Used < B.Used : A.Count > B.Count;
  });
  Usage Least = std::numeric_limits<Usage>::max();
  std::erase_if(List, [&](const Run &R) {
    if (R.Count > 1)
      return false;
    bool Dominated = Least <= R.Used;
    Least = std::min(Least, R.Used);
    return Dominated;
  });
}

/// The points of `Weak`, as a range of k, that one of `Strong` dominates: with
/// e = 1 if the next smaller k of `Strong` is what uses no more, else 0, and
/// q the number of steps that their costs are apart, k dominates k + e ... k +
/// q.
bool dominatedRange(const GridRun &Strong, const GridRun &Weak,
                    const RunStep &Step, Wide &From, Wide &To) {
  Wide Apart = Weak.Base - Strong.Base;
  if (Apart < 0)
    return false;
  int E = Strong.Rest > Weak.Rest;
  Wide Q = Apart / Step.Less;
  if (Q < E)
    return false;
  From = static_cast<Wide>(Strong.From) + E;
  To = static_cast<Wide>(Strong.To) + Q;
  return From <= Weak.To && To >= Weak.From;
}

void trimByRuns(RunList &List, const RunStep &Step, double &Work,
                double MaxWork) {
  std::vector<Item> Items = itemsOf(List, Step);
  std::ranges::sort(Items, [](const Item &A, const Item &B) {
    if (A.G.Base != B.G.Base)
      return A.G.Base < B.G.Base;
    if (A.G.Rest != B.G.Rest)
      return A.G.Rest < B.G.Rest;
    return A.G.From != B.G.From ? A.G.From < B.G.From : A.G.To > B.G.To;
  });
  List.clear();
  std::vector<GridRun> Strong; // the long ones among what was kept
  std::vector<std::pair<int64_t, int64_t>> Left, Next;
  for (const Item &I : Items) {
    Left = {{I.G.From, I.G.To}};
    for (const GridRun &S : Strong) {
      if (++Work > MaxWork)
        break;
      Wide From, To;
      if (!dominatedRange(S, I.G, Step, From, To))
        continue;
      Next.clear();
      for (auto [A, B] : Left) {
        if (A < From)
          Next.push_back({A, static_cast<int64_t>(
                                 std::min(static_cast<Wide>(B), From - 1))});
        if (B > To)
          Next.push_back(
              {static_cast<int64_t>(std::max(static_cast<Wide>(A), To + 1)),
               B});
      }
      std::swap(Left, Next);
      if (Left.empty())
        break;
    }
    for (auto [A, B] : Left) {
      Run R = I.R;
      auto Skipped = static_cast<uint32_t>(A - I.G.From);
      R.First += Skipped;
      R.Used += Skipped * Step.More;
      R.Total -= Skipped * Step.Less;
      R.Count = static_cast<uint32_t>(B - A + 1);
      List.push_back(R);
      if (R.Count > 1)
        Strong.push_back({I.G.Rest, A, B, I.G.Base});
    }
  }
}

} // namespace

void removeDominated(RunList &List, const RunStep &Step, double &Work,
                     double MaxWork) {
  sweepSingles(List, Work);
  if (Step.More &&
      std::ranges::any_of(List, [](const Run &R) { return R.Count > 1; }))
    trimByRuns(List, Step, Work, MaxWork);
  sortByPrice(List);
}

uint32_t RunTrace::addLabel(int32_t Var, int32_t Label) {
  Nodes.push_back({Kind::Label,
                   {static_cast<uint32_t>(Var), static_cast<uint32_t>(Label)},
                   {}});
  return static_cast<uint32_t>(Nodes.size() - 1);
}

uint32_t RunTrace::addSum(const Run &A, const Run &B) {
  Nodes.push_back({Kind::Sum, partOf(A), partOf(B)});
  return static_cast<uint32_t>(Nodes.size() - 1);
}

uint32_t RunTrace::addJoin(const Run &A, const Run &B) {
  Nodes.push_back({Kind::Join, partOf(A), partOf(B)});
  return static_cast<uint32_t>(Nodes.size() - 1);
}

void RunTrace::label(uint32_t Trace, uint32_t Index, Labels &X) const {
  std::vector<std::pair<uint32_t, uint32_t>> Pending{{Trace, Index}};
  while (!Pending.empty()) {
    auto [At, Point] = Pending.back();
    Pending.pop_back();
    const Node &N = Nodes[At];
    switch (N.What) {
    case Kind::Nothing:
      break;
    case Kind::Label:
      X[N.A.Trace] = static_cast<int32_t>(N.A.First);
      break;
    case Kind::Sum: {
      uint32_t OfA = std::min(Point, N.A.Count - 1);
      Pending.emplace_back(N.A.Trace, N.A.First + OfA);
      Pending.emplace_back(N.B.Trace, N.B.First + Point - OfA);
      break;
    }
    case Kind::Join:
      if (Point < N.A.Count)
        Pending.emplace_back(N.A.Trace, N.A.First + Point);
      else
        Pending.emplace_back(N.B.Trace, N.B.First + Point - N.A.Count);
      break;
    }
  }
}

void joinRuns(RunList &List, const RunStep &Step, RunTrace &Trace) {
  if (!Step.More || List.size() < 2)
    return;
  std::vector<Item> Items = itemsOf(List, Step);
  std::ranges::sort(Items, [](const Item &A, const Item &B) {
    if (A.G.Rest != B.G.Rest)
      return A.G.Rest < B.G.Rest;
    return A.G.Base != B.G.Base ? A.G.Base < B.G.Base : A.G.From < B.G.From;
  });
  List.clear();
  for (size_t I = 0; I < Items.size();) {
    Item Whole = Items[I++];
    for (; I < Items.size() && Items[I].G.Rest == Whole.G.Rest &&
           Items[I].G.Base == Whole.G.Base && Items[I].G.From <= Whole.G.To + 1;
         ++I) {
      Run Tail = Items[I].R;
      int64_t Known = Whole.G.To + 1 - Items[I].G.From; // points in both
      if (Known >= int64_t(Tail.Count))
        continue;
      Tail.First += static_cast<uint32_t>(Known);
      Tail.Count -= static_cast<uint32_t>(Known);
      Whole.R.Trace = Trace.addJoin(Whole.R, Tail);
      Whole.R.First = 0;
      Whole.R.Count += Tail.Count;
      Whole.R.Priced = std::min(Whole.R.Priced, Tail.Priced);
      Whole.G.To = Items[I].G.To;
    }
    List.push_back(Whole.R);
  }
  sortByPrice(List);
}

} // namespace heddle::solver
