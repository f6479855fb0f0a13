//===- RunList.cpp - What a part can cost and use at one time -------------===//

#include "Exact/RunList.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace heddle::solver {

namespace {

using Wide = __int128;

/// A run on the grid of its step: its points are
/// `rest + k * more` for `from <= k <= to`, at cost `Base - k * less`.
struct GridRun {
  Usage rest;
  int64_t from, to;
  Wide base;
};

GridRun onGrid(const Run &r, const RunStep &step) {
  int64_t from = r.used / step.more;
  return {r.used % step.more, from, from + int64_t(r.count) - 1,
          r.total + static_cast<Wide>(from) * step.less};
}

/// A run and where it lies.
struct Item {
  GridRun g;
  Run r;
};

std::vector<Item> itemsOf(const RunList &list, const RunStep &step) {
  std::vector<Item> items;
  items.reserve(list.size());
  for (const Run &r : list)
    items.push_back({onGrid(r, step), r});
  return items;
}

void sortByPrice(RunList &list) {
  std::ranges::sort(list, [](const Run &a, const Run &b) {
    if (a.priced != b.priced)
      return a.priced < b.priced;
    return a.total != b.total ? a.total < b.total : a.used < b.used;
  });
}

/// Points of single-point runs that a cheaper single-point run beats.
void sweepSingles(RunList &list, double &work) {
  work += static_cast<double>(list.size());
  std::ranges::sort(list, [](const Run &a, const Run &b) {
    if (a.total != b.total)
      return a.total < b.total;
    return a.used != b.used ? a.used < b.used : a.count > b.count;
  });
  Usage least = std::numeric_limits<Usage>::max();
  std::erase_if(list, [&](const Run &r) {
    if (r.count > 1)
      return false;
    bool dominated = least <= r.used;
    least = std::min(least, r.used);
    return dominated;
  });
}

/// The points of `weak`, as a range of k, that one of `strong` dominates: with
/// e = 1 if the next smaller k of `strong` is what uses no more, else 0, and
/// q the number of steps that their costs are apart, k dominates k + e ... k +
/// q.
bool dominatedRange(const GridRun &strong, const GridRun &weak,
                    const RunStep &step, Wide &from, Wide &to) {
  Wide apart = weak.base - strong.base;
  if (apart < 0)
    return false;
  int e = strong.rest > weak.rest;
  Wide q = apart / step.less;
  if (q < e)
    return false;
  from = static_cast<Wide>(strong.from) + e;
  to = static_cast<Wide>(strong.to) + q;
  return from <= weak.to && to >= weak.from;
}

void trimByRuns(RunList &list, const RunStep &step, double &work,
                double maxWork) {
  std::vector<Item> items = itemsOf(list, step);
  std::ranges::sort(items, [](const Item &a, const Item &b) {
    if (a.g.base != b.g.base)
      return a.g.base < b.g.base;
    if (a.g.rest != b.g.rest)
      return a.g.rest < b.g.rest;
    return a.g.from != b.g.from ? a.g.from < b.g.from : a.g.to > b.g.to;
  });
  list.clear();
  std::vector<GridRun> strong; // the long ones among what was kept
  std::vector<std::pair<int64_t, int64_t>> left, next;
  for (const Item &i : items) {
    left = {{i.g.from, i.g.to}};
    for (const GridRun &s : strong) {
      if (++work > maxWork)
        break;
      Wide from, to;
      if (!dominatedRange(s, i.g, step, from, to))
        continue;
      next.clear();
      for (auto [A, B] : left) {
        if (A < from)
          next.push_back({A, static_cast<int64_t>(
                                 std::min(static_cast<Wide>(B), from - 1))});
        if (B > to)
          next.push_back(
              {static_cast<int64_t>(std::max(static_cast<Wide>(A), to + 1)),
               B});
      }
      std::swap(left, next);
      if (left.empty())
        break;
    }
    for (auto [A, B] : left) {
      Run r = i.r;
      auto skipped = static_cast<uint32_t>(A - i.g.from);
      r.first += skipped;
      r.used += skipped * step.more;
      r.total -= skipped * step.less;
      r.count = static_cast<uint32_t>(B - A + 1);
      list.push_back(r);
      if (r.count > 1)
        strong.push_back({i.g.rest, A, B, i.g.base});
    }
  }
}

} // namespace

void removeDominated(RunList &list, const RunStep &step, double &work,
                     double maxWork) {
  sweepSingles(list, work);
  if (step.more &&
      std::ranges::any_of(list, [](const Run &r) { return r.count > 1; }))
    trimByRuns(list, step, work, maxWork);
  sortByPrice(list);
}

uint32_t RunTrace::addLabel(int32_t var, int32_t label) {
  nodes.push_back({Kind::Label,
                   {static_cast<uint32_t>(var), static_cast<uint32_t>(label)},
                   {}});
  return static_cast<uint32_t>(nodes.size() - 1);
}

uint32_t RunTrace::addSum(const Run &a, const Run &b) {
  nodes.push_back({Kind::Sum, partOf(a), partOf(b)});
  return static_cast<uint32_t>(nodes.size() - 1);
}

uint32_t RunTrace::addJoin(const Run &a, const Run &b) {
  nodes.push_back({Kind::Join, partOf(a), partOf(b)});
  return static_cast<uint32_t>(nodes.size() - 1);
}

void RunTrace::label(uint32_t trace, uint32_t index, Labels &x) const {
  std::vector<std::pair<uint32_t, uint32_t>> pending{{trace, index}};
  while (!pending.empty()) {
    auto [At, Point] = pending.back();
    pending.pop_back();
    const Node &n = nodes[At];
    switch (n.what) {
    case Kind::Nothing:
      break;
    case Kind::Label:
      x[n.a.trace] = static_cast<int32_t>(n.a.first);
      break;
    case Kind::Sum: {
      uint32_t ofA = std::min(Point, n.a.count - 1);
      pending.emplace_back(n.a.trace, n.a.first + ofA);
      pending.emplace_back(n.b.trace, n.b.first + Point - ofA);
      break;
    }
    case Kind::Join:
      if (Point < n.a.count)
        pending.emplace_back(n.a.trace, n.a.first + Point);
      else
        pending.emplace_back(n.b.trace, n.b.first + Point - n.a.count);
      break;
    }
  }
}

void joinRuns(RunList &list, const RunStep &step, RunTrace &trace) {
  if (!step.more || list.size() < 2)
    return;
  std::vector<Item> items = itemsOf(list, step);
  std::ranges::sort(items, [](const Item &a, const Item &b) {
    if (a.g.rest != b.g.rest)
      return a.g.rest < b.g.rest;
    return a.g.base != b.g.base ? a.g.base < b.g.base : a.g.from < b.g.from;
  });
  list.clear();
  for (size_t i = 0; i < items.size();) {
    Item whole = items[i++];
    for (; i < items.size() && items[i].g.rest == whole.g.rest &&
           items[i].g.base == whole.g.base && items[i].g.from <= whole.g.to + 1;
         ++i) {
      Run tail = items[i].r;
      int64_t known = whole.g.to + 1 - items[i].g.from; // points in both
      if (known >= int64_t(tail.count))
        continue;
      tail.first += static_cast<uint32_t>(known);
      tail.count -= static_cast<uint32_t>(known);
      whole.r.trace = trace.addJoin(whole.r, tail);
      whole.r.first = 0;
      whole.r.count += tail.count;
      whole.r.priced = std::min(whole.r.priced, tail.priced);
      whole.g.to = items[i].g.to;
    }
    list.push_back(whole.r);
  }
  sortByPrice(list);
}

} // namespace heddle::solver
