//===- PresolveTimes.cpp - Keep only the times that can bind --------------===//

#include "Reduce/Presolve.h"

#include <algorithm>

namespace heddle::solver {

/// Subtracts the least amount of every load from the load and from the
/// capacity, so that some value of every load uses 0.
void Presolver::normalizeLoads() {
  std::vector<Usage> taken(work.capacity.size() + 1, 0);
  for (size_t v = 0; v < work.vars.size(); ++v) {
    if (!alive[v])
      continue;
    auto &loads = work.vars[v].loads;
    for (Load &l : loads) {
      Usage least = *std::ranges::min_element(l.amount);
      taken[l.begin] += least;
      taken[l.end] -= least;
      for (Usage &u : l.amount)
        u -= least;
    }
    std::erase_if(loads, [](const Load &l) {
      return std::ranges::all_of(l.amount, [](Usage u) { return u == 0; });
    });
  }
  Usage sum = 0;
  for (size_t t = 0; t < work.capacity.size(); ++t) {
    work.capacity[t] -= sum += taken[t];
    if (work.capacity[t] < 0) {
      infeasible = true;
      reason = "memory exceeds the limit even if every node uses its least";
    }
  }
}

namespace {

/// Whether the usage of some values grows or shrinks from one time to the next.
struct Change {
  bool grows = false;
  bool shrinks = false;
  Change &operator|=(const Change &o) {
    grows |= o.grows;
    shrinks |= o.shrinks;
    return *this;
  }
};

void addChanges(const std::vector<Load> &loads, std::vector<Change> &changes) {
  for (size_t i = 0; i < loads.size(); ++i) {
    const Load &l = loads[i];
    bool touches = i && loads[i - 1].end == l.begin;
    for (size_t s = 0; s < l.amount.size(); ++s) {
      Usage old = touches ? loads[i - 1].amount[s] : 0;
      changes[l.begin].grows |= l.amount[s] > old;
      changes[l.begin].shrinks |= l.amount[s] < old;
    }
    if (i + 1 == loads.size() || loads[i + 1].begin != l.end)
      changes[l.end].shrinks = true;
  }
}

/// The times with `binding` whose limit does not follow from that of another
/// time.
std::vector<int32_t> undominated(const std::vector<Usage> &capacity,
                                 const std::vector<char> &binding,
                                 const std::vector<Change> &changes) {
  struct Kept {
    int32_t time;
    Change since; ///< From the time kept before to this one.
  };
  std::vector<Kept> stack;
  Change since;
  for (int32_t t = 0; t < static_cast<int32_t>(capacity.size()); ++t) {
    since |= changes[t];
    if (!binding[t])
      continue;
    while (!stack.empty() && !since.shrinks &&
           capacity[stack.back().time] >= capacity[t]) {
      since |= stack.back().since;
      stack.pop_back();
    }
    if (!stack.empty() && !since.grows &&
        capacity[t] >= capacity[stack.back().time])
      continue;
    stack.push_back({t, since});
    since = {};
  }
  std::vector<int32_t> times;
  times.reserve(stack.size());
  for (const Kept &k : stack)
    times.push_back(k.time);
  return times;
}

} // namespace

void Presolver::reduceTimes() {
  normalizeLoads();
  size_t count = work.capacity.size();
  if (infeasible || count == 0)
    return;
  std::vector<Usage> most(count + 1, 0);
  std::vector<Change> changes(count + 1);
  for (size_t v = 0; v < work.vars.size(); ++v) {
    if (!alive[v])
      continue;
    for (const Load &l : work.vars[v].loads) {
      Usage largest = *std::ranges::max_element(l.amount);
      most[l.begin] += largest;
      most[l.end] -= largest;
    }
    addChanges(work.vars[v].loads, changes);
  }
  std::vector<char> binding(count);
  Usage sum = 0;
  for (size_t t = 0; t < count; ++t)
    binding[t] = (sum += most[t]) > work.capacity[t];
  std::vector<int32_t> times = undominated(work.capacity, binding, changes);

  std::vector<int32_t> position(count + 1);
  std::vector<Usage> capacity;
  std::vector<int32_t> keptTimes;
  size_t next = 0;
  for (size_t t = 0; t <= count; ++t) {
    position[t] = static_cast<int32_t>(next);
    if (next < times.size() && times[next] == static_cast<int32_t>(t)) {
      capacity.push_back(work.capacity[t]);
      keptTimes.push_back(timeOf[t]);
      ++next;
    }
  }
  work.capacity = std::move(capacity);
  timeOf = std::move(keptTimes);
  for (size_t v = 0; v < work.vars.size(); ++v) {
    if (!alive[v])
      continue;
    std::vector<Load> loads;
    for (Load &l : work.vars[v].loads) {
      l.begin = position[l.begin];
      l.end = position[l.end];
      if (l.begin == l.end)
        continue;
      if (!loads.empty() && loads.back().end == l.begin &&
          loads.back().amount == l.amount)
        loads.back().end = l.end;
      else
        loads.push_back(std::move(l));
    }
    work.vars[v].loads = std::move(loads);
  }
}

} // namespace heddle::solver
