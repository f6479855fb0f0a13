//===- PresolveTimes.cpp - Keep only the times that can bind --------------===//

#include "Reduce/Presolve.h"

#include <algorithm>

namespace heddle::solver {

/// Takes what a variable uses whatever its value off the capacity, so that
/// every load has an amount of 0 somewhere.
void Presolver::normalizeLoads() {
  std::vector<Usage> Taken(Work.Capacity.size() + 1, 0);
  for (size_t V = 0; V < Work.Vars.size(); ++V) {
    if (!Alive[V])
      continue;
    auto &Loads = Work.Vars[V].Loads;
    for (Load &L : Loads) {
      Usage Least = *std::ranges::min_element(L.Amount);
      Taken[L.Begin] += Least;
      Taken[L.End] -= Least;
      for (Usage &U : L.Amount)
        U -= Least;
    }
    std::erase_if(Loads, [](const Load &L) {
      return std::ranges::all_of(L.Amount, [](Usage U) { return U == 0; });
    });
  }
  Usage Sum = 0;
  for (size_t T = 0; T < Work.Capacity.size(); ++T) {
    Work.Capacity[T] -= Sum += Taken[T];
    if (Work.Capacity[T] < 0) {
      Infeasible = true;
      Reason = "memory exceeds the limit even if every node uses its least";
    }
  }
}

namespace {

/// How usage may change from one time to the next.
struct Change {
  bool Grows = false;
  bool Shrinks = false;
  Change &operator|=(const Change &O) {
    Grows |= O.Grows;
    Shrinks |= O.Shrinks;
    return *this;
  }
};

void addChanges(const std::vector<Load> &Loads, std::vector<Change> &Changes) {
  for (size_t I = 0; I < Loads.size(); ++I) {
    const Load &L = Loads[I];
    bool Touches = I && Loads[I - 1].End == L.Begin;
    for (size_t S = 0; S < L.Amount.size(); ++S) {
      Usage Old = Touches ? Loads[I - 1].Amount[S] : 0;
      Changes[L.Begin].Grows |= L.Amount[S] > Old;
      Changes[L.Begin].Shrinks |= L.Amount[S] < Old;
    }
    if (I + 1 == Loads.size() || Loads[I + 1].Begin != L.End)
      Changes[L.End].Shrinks = true;
  }
}

/// The times that no neighbour implies, out of those with `Binding`.
std::vector<int32_t> undominated(const std::vector<Usage> &Capacity,
                                 const std::vector<char> &Binding,
                                 const std::vector<Change> &Changes) {
  struct Kept {
    int32_t Time;
    Change Since; ///< From the one kept before to this one.
  };
  std::vector<Kept> Stack;
  Change Since;
  for (int32_t T = 0; T < static_cast<int32_t>(Capacity.size()); ++T) {
    Since |= Changes[T];
    if (!Binding[T])
      continue;
    while (!Stack.empty() && !Since.Shrinks &&
           Capacity[Stack.back().Time] >= Capacity[T]) {
      Since |= Stack.back().Since;
      Stack.pop_back();
    }
    if (!Stack.empty() && !Since.Grows &&
        Capacity[T] >= Capacity[Stack.back().Time])
      continue;
    Stack.push_back({T, Since});
    Since = {};
  }
  std::vector<int32_t> Times;
  Times.reserve(Stack.size());
  for (const Kept &K : Stack)
    Times.push_back(K.Time);
  return Times;
}

} // namespace

void Presolver::reduceTimes() {
  normalizeLoads();
  size_t Count = Work.Capacity.size();
  if (Infeasible || Count == 0)
    return;
  std::vector<Usage> Most(Count + 1, 0);
  std::vector<Change> Changes(Count + 1);
  for (size_t V = 0; V < Work.Vars.size(); ++V) {
    if (!Alive[V])
      continue;
    for (const Load &L : Work.Vars[V].Loads) {
      Usage Largest = *std::ranges::max_element(L.Amount);
      Most[L.Begin] += Largest;
      Most[L.End] -= Largest;
    }
    addChanges(Work.Vars[V].Loads, Changes);
  }
  std::vector<char> Binding(Count);
  Usage Sum = 0;
  for (size_t T = 0; T < Count; ++T)
    Binding[T] = (Sum += Most[T]) > Work.Capacity[T];
  std::vector<int32_t> Times = undominated(Work.Capacity, Binding, Changes);

  std::vector<int32_t> Position(Count + 1);
  std::vector<Usage> Capacity;
  std::vector<int32_t> KeptTimes;
  size_t Next = 0;
  for (size_t T = 0; T <= Count; ++T) {
    Position[T] = static_cast<int32_t>(Next);
    if (Next < Times.size() && Times[Next] == static_cast<int32_t>(T)) {
      Capacity.push_back(Work.Capacity[T]);
      KeptTimes.push_back(TimeOf[T]);
      ++Next;
    }
  }
  Work.Capacity = std::move(Capacity);
  TimeOf = std::move(KeptTimes);
  for (size_t V = 0; V < Work.Vars.size(); ++V) {
    if (!Alive[V])
      continue;
    std::vector<Load> Loads;
    for (Load &L : Work.Vars[V].Loads) {
      L.Begin = Position[L.Begin];
      L.End = Position[L.End];
      if (L.Begin == L.End)
        continue;
      if (!Loads.empty() && Loads.back().End == L.Begin &&
          Loads.back().Amount == L.Amount)
        Loads.back().End = L.End;
      else
        Loads.push_back(std::move(L));
    }
    Work.Vars[V].Loads = std::move(Loads);
  }
}

} // namespace heddle::solver
