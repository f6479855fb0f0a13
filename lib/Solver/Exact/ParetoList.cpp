//===- ParetoList.cpp - The costs and usages that a part can have ---------===//

#include "Exact/ParetoList.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>
#include <tuple>
#include <utility>

namespace heddle::solver {

using Wide = __int128;

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

uint64_t PartTrace::addLabel(int32_t var, int32_t label) {
  nodes.push_back({Kind::Label,
                   {static_cast<uint32_t>(var), static_cast<uint32_t>(label)},
                   {}});
  return nodes.size() - 1;
}

uint64_t PartTrace::add(Kind kind, const ParetoEntry &a, const ParetoEntry &b) {
  auto partOf = [](const ParetoEntry &e) {
    return Part{static_cast<uint32_t>(e.trace), e.first, e.count};
  };
  nodes.push_back({kind, partOf(a), partOf(b)});
  return nodes.size() - 1;
}

void PartTrace::label(const ParetoEntry &entry, Labels &x) const {
  std::vector<std::pair<uint64_t, uint32_t>> pending{
      {entry.trace, entry.first}};
  while (!pending.empty()) {
    auto [trace, point] = pending.back();
    pending.pop_back();
    const Node &n = nodes[trace];
    switch (n.kind) {
    case Kind::Nothing:
      break;
    case Kind::Label:
      x[n.a.trace] = static_cast<int32_t>(n.a.first);
      break;
    case Kind::Sum: {
      uint32_t ofA = std::min(point, n.a.count - 1);
      pending.emplace_back(n.a.trace, n.a.first + ofA);
      pending.emplace_back(n.b.trace, n.b.first + point - ofA);
      break;
    }
    case Kind::Join:
      if (point < n.a.count)
        pending.emplace_back(n.a.trace, n.a.first + point);
      else
        pending.emplace_back(n.b.trace, n.b.first + point - n.a.count);
      break;
    }
  }
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

void ParetoList::append(ParetoList other) {
  if (size() == 0) {
    *this = std::move(other);
    return;
  }
  entries.insert(entries.end(), other.entries.begin(), other.entries.end());
  used.insert(used.end(), other.used.begin(), other.used.end());
}

void ParetoList::project(const std::vector<int32_t> &kept,
                         const RunStep &step) {
  if (kept.size() == dimensions)
    return;
  std::vector<Usage> left;
  left.reserve(size() * kept.size());
  for (size_t i = 0; i < size(); ++i)
    for (int32_t d : kept)
      left.push_back(getUsage(i)[d]);
  used = std::move(left);
  dimensions = kept.size();
  if (dimensions > 0)
    return;
  for (ParetoEntry &e : entries) {
    e.first += e.count - 1;
    e.total -= Cost(e.count - 1) * step.less;
    e.count = 1;
  }
}

/// Keeps the entries with these numbers, ascending.
template <typename Numbers> void ParetoList::keep(const Numbers &numbers) {
  size_t k = 0;
  for (uint32_t i : numbers) {
    entries[k] = entries[i];
    std::copy_n(getUsage(i), dimensions, used.begin() + k * dimensions);
    ++k;
  }
  entries.resize(k);
  used.resize(k * dimensions);
  if (k < entries.capacity() / 2) { // `bytes` does not count spare capacity
    entries.shrink_to_fit();
    used.shrink_to_fit();
  }
}

void ParetoList::sortByReduced() {
  if (std::ranges::is_sorted(entries, {}, &ParetoEntry::reduced))
    return;
  llvm::SmallVector<std::pair<double, uint32_t>, 64> order;
  order.reserve(size());
  for (uint32_t i = 0; i < size(); ++i)
    order.emplace_back(entries[i].reduced, i);
  std::ranges::sort(order);
  ParetoList result(dimensions);
  result.reserve(size());
  for (auto [reduced, i] : order)
    result.add(entries[i], getUsage(i));
  *this = std::move(result);
}

static std::vector<uint32_t> allOf(size_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

double ParetoList::removeDominated(const RunStep &step, double maxComparisons) {
  if (size() < 2)
    return static_cast<double>(size());
  struct Key {
    Cost total;
    Usage firstUsage;
    uint32_t i;
  };
  llvm::SmallVector<Key, 64> keys;
  keys.reserve(size());
  for (uint32_t i = 0; i < size(); ++i)
    keys.push_back({entries[i].total, dimensions ? *getUsage(i) : 0, i});
  std::ranges::sort(keys, [&](const Key &a, const Key &b) {
    if (a.total != b.total)
      return a.total < b.total;
    if (a.firstUsage != b.firstUsage)
      return a.firstUsage < b.firstUsage;
    for (size_t d = 1; d < dimensions; ++d)
      if (getUsage(a.i)[d] != getUsage(b.i)[d])
        return getUsage(a.i)[d] < getUsage(b.i)[d];
    if (entries[a.i].count != entries[b.i].count)
      return entries[a.i].count > entries[b.i].count;
    return a.i < b.i;
  });
  size_t kept = 0; // the first `kept` keys are not dominated
  double comparisons = static_cast<double>(size());
  Usage least = std::numeric_limits<Usage>::max(); // of cheaper entries
  bool hasRuns = false;
  for (const Key &key : keys) {
    uint32_t i = key.i;
    bool isDominated;
    if (dimensions == 0) {
      isDominated = kept > 0;
    } else if (dimensions == 1) {
      isDominated = entries[i].count == 1 && least <= key.firstUsage;
      least = std::min(least, key.firstUsage);
      hasRuns |= entries[i].count > 1;
    } else {
      auto known = llvm::ArrayRef(keys).take_front(kept);
      isDominated = std::ranges::any_of(known, [&](const Key &k) {
        ++comparisons;
        const Usage *have = getUsage(k.i), *fresh = getUsage(i);
        for (size_t d = 0; d < dimensions; ++d)
          if (have[d] > fresh[d])
            return false;
        return true;
      });
    }
    if (!isDominated)
      keys[kept++] = key;
    if (comparisons > maxComparisons)
      return comparisons;
  }
  if (kept < size()) {
    keys.resize(kept);
    std::ranges::sort(keys, {}, &Key::i);
    keep(std::views::transform(keys, &Key::i));
  }
  if (hasRuns)
    comparisons += subtractDominated(step, maxComparisons - comparisons);
  return comparisons;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// A run with its points numbered by usage: point number k, from <= k <= to,
/// uses `rest + k * more` and costs `base - k * less`. So runs with equal
/// `rest` and `base` lie on one line, on which their numbers are comparable.
struct ParetoList::GridRun {
  Usage rest;
  int64_t from, to;
  Wide base;
  ParetoEntry entry;
};

std::vector<ParetoList::GridRun>
ParetoList::runsOnGrid(const RunStep &step) const {
  std::vector<GridRun> runs;
  runs.reserve(size());
  for (size_t i = 0; i < size(); ++i) {
    const ParetoEntry &e = entries[i];
    int64_t from = used[i] / step.more;
    runs.push_back({used[i] % step.more, from, from + int64_t(e.count) - 1,
                    e.total + static_cast<Wide>(from) * step.less, e});
  }
  return runs;
}

/// Removes the points of every run that an earlier run of several points
/// dominates. Let s be the earlier run. Its point k dominates the points
/// k + e ... k + q of the other run: point k of s uses no more than point k +
/// e, and costs no more than point k + q. e is 0 if the `rest` of s is no
/// larger, else 1. q is the difference of the runs' `base` in steps, rounded
/// down.
double ParetoList::subtractDominated(const RunStep &step,
                                     double maxComparisons) {
  std::vector<GridRun> runs = runsOnGrid(step);
  std::ranges::sort(runs, [](const GridRun &a, const GridRun &b) {
    return std::tie(a.base, a.rest, a.from, b.to) <
           std::tie(b.base, b.rest, b.from, a.to);
  });
  double comparisons = 0;
  ParetoList result(1);
  result.reserve(size());
  std::vector<GridRun> strong; // the kept runs of several points
  llvm::SmallVector<std::pair<int64_t, int64_t>, 8> left, next;
  for (const GridRun &run : runs) {
    left = {{run.from, run.to}};
    for (const GridRun &s : strong) {
      if (++comparisons > maxComparisons || left.empty())
        break;
      int64_t e = s.rest > run.rest, from = s.from + e;
      if (from > run.to)
        continue;
      Wide q = (run.base - s.base) / step.less, to = s.to + q;
      if (q < e || to < run.from)
        continue;
      next.clear();
      for (auto [a, b] : left) {
        if (a < from)
          next.emplace_back(a, std::min(b, from - 1));
        if (b > to)
          next.emplace_back(static_cast<int64_t>(std::max<Wide>(a, to + 1)), b);
      }
      std::swap(left, next);
    }
    for (auto [a, b] : left) {
      ParetoEntry e = run.entry;
      e.first += static_cast<uint32_t>(a - run.from);
      e.total -= (a - run.from) * step.less;
      e.count = static_cast<uint32_t>(b - a + 1);
      Usage amount = run.rest + a * step.more;
      result.add(e, &amount);
      if (e.count > 1)
        strong.push_back({run.rest, a, b, run.base, e});
    }
  }
  *this = std::move(result);
  return comparisons;
}

void ParetoList::findStep(double price, RunStep &step) const {
  std::vector<uint32_t> order = allOf(size()); // ascends in reduced cost
  for (size_t begin = 0, end; begin < size(); begin = end) {
    double same = 1e-10 * std::abs(entries[begin].reduced);
    for (end = begin + 1;
         end < size() &&
         entries[end].reduced - entries[end - 1].reduced <= same;)
      ++end;
    std::sort(order.begin() + begin, order.begin() + end,
              [&](uint32_t a, uint32_t b) { return used[a] < used[b]; });
    for (size_t i = begin + 1; i < end; ++i) {
      Usage more = used[order[i]] - used[order[i - 1]];
      Cost less = entries[order[i - 1]].total - entries[order[i]].total;
      double worth = price * static_cast<double>(more);
      if (more > 0 && less > 0 &&
          std::abs(static_cast<double>(less) - worth) <= 1e-9 * worth &&
          (!step.more || more < step.more))
        step = {more, less};
    }
  }
}

void ParetoList::joinRuns(const RunStep &step, PartTrace &trace) {
  std::vector<GridRun> runs = runsOnGrid(step);
  std::ranges::sort(runs, [](const GridRun &a, const GridRun &b) {
    return std::tie(a.rest, a.base, a.from) < std::tie(b.rest, b.base, b.from);
  });
  ParetoList result(1);
  result.reserve(size());
  for (size_t i = 0; i < runs.size();) {
    GridRun whole = runs[i++];
    for (; i < runs.size() && runs[i].rest == whole.rest &&
           runs[i].base == whole.base && runs[i].from <= whole.to + 1;
         ++i) {
      ParetoEntry tail = runs[i].entry;
      int64_t known = whole.to + 1 - runs[i].from; // points in both runs
      if (known >= int64_t(tail.count))
        continue;
      tail.first += static_cast<uint32_t>(known);
      tail.count -= static_cast<uint32_t>(known);
      whole.entry.trace = trace.addJoin(whole.entry, tail);
      whole.entry.first = 0;
      whole.entry.count += tail.count;
      whole.entry.reduced = std::min(whole.entry.reduced, tail.reduced);
      whole.to = runs[i].to;
    }
    Usage amount = whole.rest + whole.from * step.more;
    result.add(whole.entry, &amount);
  }
  *this = std::move(result);
}

void ParetoList::thinOut(size_t count) {
  auto [low, high] = std::ranges::minmax(used);
  auto from = static_cast<double>(low);
  double width = (static_cast<double>(high) - from) / count + 1;
  std::vector<char> isTaken(count + 1, 0);
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < size(); ++i) { // ascends in reduced cost
    auto place =
        static_cast<size_t>((static_cast<double>(used[i]) - from) / width);
    if (!std::exchange(isTaken[place], 1))
      kept.push_back(i);
  }
  keep(kept);
}

} // namespace heddle::solver
