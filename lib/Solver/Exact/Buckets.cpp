//===- Buckets.cpp - The tree that the exact search works on --------------===//

#include "Exact/Buckets.h"
#include "Bound/EliminationOrder.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace heddle::solver {

/// The most pairs of a bucket and a time. With more, laying out the buckets
/// would take longer than the search is worth.
static constexpr double kMaxLayout = 3e8;

/// Returns for each interval of `outer` the index of the interval of `inner`
/// that overlaps it, or -1.
static std::vector<int32_t> containing(const std::vector<Interval> &outer,
                                       const std::vector<Interval> &inner) {
  std::vector<int32_t> result;
  size_t i = 0;
  for (const Interval &o : outer) {
    while (i < inner.size() && inner[i].end <= o.begin)
      ++i;
    bool within = i < inner.size() && inner[i].begin < o.end;
    result.push_back(within ? static_cast<int32_t>(i) : -1);
  }
  return result;
}

/// Sets `breaks`, `full`, `room`, `open`, and their indices of each bucket.
/// Children must be before their parents in `buckets`.
static void findTimes(const Model &m, std::vector<Bucket> &buckets) {
  size_t times = m.capacity.size();
  std::vector<int32_t> total(times + 1, 0);
  auto count = [](std::vector<int32_t> &into, const Variable &v) {
    for (const Load &l : v.loads)
      for (int32_t t = l.begin; t < l.end; ++t)
        ++into[t];
  };
  for (const Variable &v : m.vars)
    count(total, v);
  std::vector<std::vector<int32_t>> loadsBelow(buckets.size());
  for (size_t i = 0; i < buckets.size(); ++i) {
    Bucket &b = buckets[i];
    auto &here = loadsBelow[i];
    here.assign(times + 1, 0);
    if (b.var >= 0) {
      count(here, m.vars[b.var]);
      for (const Load &l : m.vars[b.var].loads) {
        b.breaks.push_back(l.begin);
        b.breaks.push_back(l.end);
      }
    }
    for (int32_t c : b.children) {
      for (const Interval &r : buckets[c].open) {
        b.breaks.push_back(static_cast<int32_t>(r.begin));
        b.breaks.push_back(static_cast<int32_t>(r.end));
      }
      for (size_t t = 0; t < times; ++t)
        here[t] += loadsBelow[c][t];
      loadsBelow[c] = {};
    }
    std::ranges::sort(b.breaks);
    b.breaks.erase(std::ranges::unique(b.breaks).begin(), b.breaks.end());
    for (size_t k = 0; k + 1 < b.breaks.size(); ++k) {
      int32_t begin = b.breaks[k], end = b.breaks[k + 1];
      b.room.push_back(*std::min_element(m.capacity.begin() + begin,
                                         m.capacity.begin() + end));
      b.full.push_back({begin, end});
      // A time at which no variable elsewhere has a load is closed: the
      // bucket's entries need not state their usage at it.
      auto isOpen = [&](int32_t t) { return here[t] && here[t] < total[t]; };
      while (begin < end && !isOpen(begin))
        ++begin;
      while (begin < end && !isOpen(end - 1))
        --end;
      if (begin < end) {
        b.open.push_back({begin, end});
        b.openInFull.push_back(static_cast<int32_t>(b.full.size()) - 1);
      }
    }
    for (int32_t c : b.children)
      b.fullInChild.push_back(containing(b.full, buckets[c].open));
  }
}

bool layOutBuckets(const Model &m, const TreeBound *tree,
                   std::vector<Bucket> &buckets) {
  std::vector<int32_t> all(m.vars.size());
  std::iota(all.begin(), all.end(), 0);
  Random unused(0);
  if (static_cast<double>(all.size() * m.capacity.size()) > kMaxLayout)
    return false;
  // A key is a 64-bit number that stands for one choice of labels of a
  // separator, so a separator may not have more choices.
  constexpr double kMaxKeys = 1e18;
  EliminationOrder order =
      tree ? tree->getOrder()
           : chooseOrder(m, all, kMaxKeys,
                         static_cast<double>(all.size()) * kMaxKeys, unused);
  if (order.vars.size() < all.size())
    return false;
  std::vector<int32_t> position(m.vars.size());
  for (size_t i = 0; i < order.vars.size(); ++i)
    position[order.vars[i]] = static_cast<int32_t>(i);
  buckets.resize(order.vars.size());
  std::vector<int32_t> roots;
  for (size_t i = 0; i < buckets.size(); ++i) {
    Bucket &b = buckets[i];
    b.var = order.vars[i];
    b.separator = order.separators[i];
    int32_t parent = std::numeric_limits<int32_t>::max();
    for (int32_t v : b.separator)
      parent = std::min(parent, position[v]);
    if (b.separator.empty())
      roots.push_back(static_cast<int32_t>(i));
    else
      buckets[parent].children.push_back(static_cast<int32_t>(i));
  }
  // Buckets without a variable join the roots of the components, one after
  // another.
  for (size_t r = 1; r < roots.size(); ++r) {
    Bucket &b = buckets.emplace_back();
    b.children = {r == 1 ? roots[0] : static_cast<int32_t>(buckets.size()) - 2,
                  roots[r]};
  }
  findTimes(m, buckets);
  return true;
}

} // namespace heddle::solver
