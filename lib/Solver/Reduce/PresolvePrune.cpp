//===- PresolvePrune.cpp - Reductions that remove values ------------------===//

#include "Reduce/Presolve.h"

#include <algorithm>
#include <bit>

namespace heddle::solver {

namespace {

/// Finds the minimum over any range of an array in constant time (sparse
/// table).
class RangeMinimum {
public:
  explicit RangeMinimum(const std::vector<Usage> &values) : levels{values} {
    for (size_t width = 1; 2 * width <= values.size(); width *= 2) {
      const auto &last = levels.back();
      std::vector<Usage> next(last.size() - width);
      for (size_t i = 0; i < next.size(); ++i)
        next[i] = std::min(last[i], last[i + width]);
      levels.push_back(std::move(next));
    }
  }

  /// The minimum over the non-empty range [begin, end).
  Usage operator()(int32_t begin, int32_t end) const {
    unsigned level = std::bit_width(static_cast<uint32_t>(end - begin)) - 1;
    return std::min(levels[level][begin], levels[level][end - (1 << level)]);
  }

private:
  std::vector<std::vector<Usage>> levels;
};

} // namespace

/// Removes the values of a variable that are not kept. Returns whether there
/// were any.
bool Presolver::keepValues(int32_t var, const std::vector<char> &keep) {
  Variable &v = work.vars[var];
  int32_t size = v.size();
  std::vector<int32_t> kept;
  for (int32_t s = 0; s < size; ++s)
    if (keep[s])
      kept.push_back(s);
  if (static_cast<int32_t>(kept.size()) == size)
    return false;
  if (kept.empty()) {
    infeasible = true;
    if (reason.empty())
      reason = "no strategy of a node is left";
    return true;
  }
  auto compact = [&](auto &list) {
    for (size_t i = 0; i < kept.size(); ++i)
      list[i] = list[kept[i]];
    list.resize(kept.size());
  };
  for (int32_t id : v.pairs) {
    Pair &p = work.pairs[id];
    PairView view(work, p, var);
    int32_t theirs = work.vars[p.other(var)].size();
    std::vector<Cost> table;
    table.reserve(kept.size() * theirs);
    if (p.a == var) {
      for (int32_t s : kept)
        for (int32_t t = 0; t < theirs; ++t)
          table.push_back(view(s, t));
    } else {
      for (int32_t t = 0; t < theirs; ++t)
        for (int32_t s : kept)
          table.push_back(view(s, t));
    }
    p.table = std::move(table);
  }
  compact(v.unary);
  compact(origin[var]);
  for (Load &l : v.loads)
    compact(l.amount);
  return true;
}

/// Removes the values of a pair's variables that have only infinite entries.
/// Returns whether there were any.
bool Presolver::supportInPair(int32_t id) {
  const Pair &p = work.pairs[id];
  const Variable &a = work.vars[p.a], &b = work.vars[p.b];
  std::vector<char> keepA(a.size(), 0), keepB(b.size(), 0);
  size_t entry = 0;
  for (int32_t i = 0; i < a.size(); ++i)
    for (int32_t j = 0; j < b.size(); ++j)
      if (addCosts(p.table[entry++], addCosts(a.unary[i], b.unary[j])) <
          kInfiniteCost)
        keepA[i] = keepB[j] = 1;
  int32_t varA = p.a, varB = p.b;
  bool changed = keepValues(varA, keepA);
  return !infeasible && (keepValues(varB, keepB) || changed);
}

void Presolver::makeArcConsistent(const std::function<bool()> &stop) {
  std::vector<int32_t> queue;
  std::vector<char> queued(work.pairs.size(), 0);
  auto push = [&](int32_t id) {
    if (!queued[id]) {
      queued[id] = 1;
      queue.push_back(id);
    }
  };
  reason = "no combination of strategies has a finite cost";
  for (size_t v = 0; v < work.vars.size() && !infeasible; ++v)
    if (alive[v]) {
      std::vector<char> keep(work.vars[v].size());
      for (size_t s = 0; s < keep.size(); ++s)
        keep[s] = work.vars[v].unary[s] < kInfiniteCost;
      keepValues(static_cast<int32_t>(v), keep);
    }
  for (size_t id = 0; id < work.pairs.size(); ++id)
    if (pairAlive[id])
      push(static_cast<int32_t>(id));
  for (size_t turn = 0; !queue.empty() && !infeasible; ++turn) {
    if (turn % 64 == 0 && stop())
      return;
    int32_t id = queue.back();
    queue.pop_back();
    queued[id] = 0;
    const Pair &p = work.pairs[id];
    if (supportInPair(id))
      for (int32_t var : {p.a, p.b})
        for (int32_t next : work.vars[var].pairs)
          push(next);
  }
}

/// Removes the values that use more memory than the other variables can leave.
/// After normalizeLoads, that is the capacity at the time.
void Presolver::pruneByMemory() {
  normalizeLoads();
  if (infeasible || work.capacity.empty())
    return;
  reason = "every strategy of a node exceeds the memory limit";
  RangeMinimum room(work.capacity);
  for (size_t v = 0; v < work.vars.size() && !infeasible; ++v) {
    if (!alive[v])
      continue;
    std::vector<char> keep(work.vars[v].size(), 1);
    for (const Load &l : work.vars[v].loads) {
      Usage least = room(l.begin, l.end);
      for (size_t s = 0; s < keep.size(); ++s)
        keep[s] &= l.amount[s] <= least;
    }
    keepValues(static_cast<int32_t>(v), keep);
  }
}

/// Whether replacing `worse` by `better` never increases cost or usage.
bool Presolver::dominates(int32_t var, int32_t better, int32_t worse) const {
  const Variable &v = work.vars[var];
  for (const Load &l : v.loads)
    if (l.amount[better] > l.amount[worse])
      return false;
  __int128 excess = v.unary[better] - v.unary[worse];
  for (int32_t id : v.pairs) {
    PairView costs = view(id, var);
    int32_t theirs = work.vars[work.pairs[id].other(var)].size();
    Cost largest = -kInfiniteCost;
    for (int32_t t = 0; t < theirs; ++t) {
      Cost old = costs(worse, t), fresh = costs(better, t);
      if (old == kInfiniteCost)
        continue;
      if (fresh == kInfiniteCost)
        return false;
      largest = std::max(largest, fresh - old);
    }
    excess += largest;
  }
  return excess <= 0;
}

/// A hash of a variable's numbers of values, pairs, loads and table entries. A
/// reduction that lets one of its values dominate another changes these
/// numbers. If two hashes are equal by chance, a reduction is missed, but the
/// result stays correct.
uint64_t Presolver::shapeOf(size_t var) const {
  const Variable &v = work.vars[var];
  uint64_t shape =
      v.unary.size() * 31 + v.pairs.size() * 7919 + v.loads.size() * 104729;
  for (int32_t id : v.pairs)
    shape += work.pairs[id].table.size() * 1299709;
  return shape;
}

void Presolver::removeDominated(int32_t var,
                                const std::function<bool()> &stop) {
  // All pairs of two thousand values. The variable of an edge of many nodes can
  // have millions of values.
  constexpr int64_t kMaxComparisons = 4'000'000;
  int32_t size = work.vars[var].size();
  std::vector<char> keep(size, 1);
  int64_t left = kMaxComparisons;
  for (int32_t worse = 0; worse < size && left > 0 && !stop(); ++worse)
    for (int32_t better = 0; better < size && keep[worse]; ++better)
      if (--left;
          better != worse && keep[better] && dominates(var, better, worse)) {
        keep[worse] = 0;
        replacement[var][origin[var][worse]] = origin[var][better];
      }
  keepValues(var, keep);
}

void Presolver::removeDominated(const std::function<bool()> &stop) {
  shapeWhenChecked.resize(work.vars.size(), 0);
  for (size_t v = 0; v < work.vars.size() && !infeasible && !stop(); ++v) {
    if (!alive[v] || shapeOf(v) == shapeWhenChecked[v])
      continue;
    shapeWhenChecked[v] = shapeOf(v);
    removeDominated(static_cast<int32_t>(v), stop);
  }
}

} // namespace heddle::solver
