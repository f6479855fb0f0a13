//===- Submodel.cpp - A model whose other variables are fixed -------------===//

#include "Search/Submodel.h"

#include <algorithm>

namespace heddle::solver {

namespace {

/// A stretch of times of the whole model in which no load of a region changes.
/// `room` is the least memory that the other variables leave in the stretch.
/// Stretches in which the region cannot use more than `room` are left out.
struct Segment {
  int32_t begin, end;
  Usage room;
};

std::vector<Segment> segmentsOf(const Model &whole,
                                const std::vector<int32_t> &region,
                                const Labels &x,
                                const std::vector<Usage> &used) {
  std::vector<int32_t> breaks;
  size_t times = whole.capacity.size();
  std::vector<Usage> own(times + 1, 0), most(times + 1, 0);
  for (int32_t v : region)
    for (const Load &l : whole.vars[v].loads) {
      breaks.push_back(l.begin);
      breaks.push_back(l.end);
      Usage largest = *std::ranges::max_element(l.amount);
      own[l.begin] += l.amount[x[v]];
      own[l.end] -= l.amount[x[v]];
      most[l.begin] += largest;
      most[l.end] -= largest;
    }
  std::ranges::sort(breaks);
  breaks.erase(std::ranges::unique(breaks).begin(), breaks.end());
  std::vector<Segment> segments;
  Usage ownSum = 0, mostSum = 0;
  for (size_t i = 0; i + 1 < breaks.size(); ++i) {
    ownSum += own[breaks[i]];
    mostSum += most[breaks[i]];
    Usage room = whole.capacity[breaks[i]] - used[breaks[i]];
    for (int32_t k = breaks[i]; k < breaks[i + 1]; ++k)
      room = std::min(room, whole.capacity[k] - used[k]);
    if (mostSum > room + ownSum)
      segments.push_back({breaks[i], breaks[i + 1], room + ownSum});
  }
  return segments;
}

} // namespace

Submodel fixOutside(const Model &whole, const std::vector<int32_t> &region,
                    const Labels &x, const std::vector<Usage> &used,
                    const std::vector<double> &prices) {
  Submodel s;
  std::vector<int32_t> number(whole.vars.size(), -1);
  for (size_t i = 0; i < region.size(); ++i)
    number[region[i]] = static_cast<int32_t>(i);
  std::vector<Segment> segments = segmentsOf(whole, region, x, used);
  for (const Segment &g : segments) {
    s.m.capacity.push_back(g.room);
    s.prices.push_back(0);
    for (int32_t t = g.begin; t < g.end; ++t)
      s.prices.back() += prices[t];
  }

  Labels now;
  for (int32_t v : region) {
    const Variable &old = whole.vars[v];
    std::vector<Cost> unary(old.unary);
    for (int32_t id : old.pairs) {
      int32_t other = whole.pairs[id].other(v);
      if (number[other] >= 0)
        continue;
      PairView costs(whole, whole.pairs[id], v);
      for (int32_t l = 0; l < old.size(); ++l)
        unary[l] = addCosts(unary[l], costs(l, x[other]));
    }
    auto &labels = s.labelOf.emplace_back();
    Variable fresh;
    now.push_back(0);
    for (int32_t l = 0; l < old.size(); ++l)
      if (unary[l] < kInfiniteCost || l == x[v]) {
        if (l == x[v])
          now.back() = static_cast<int32_t>(labels.size());
        labels.push_back(l);
        fresh.unary.push_back(unary[l]);
      }
    for (const Load &l : old.loads) {
      Load part{0, 0, {}};
      auto first =
          std::ranges::lower_bound(segments, l.begin, {}, &Segment::begin);
      auto last =
          std::ranges::lower_bound(segments, l.end, {}, &Segment::begin);
      part.begin = static_cast<int32_t>(first - segments.begin());
      part.end = static_cast<int32_t>(last - segments.begin());
      for (int32_t label : labels)
        part.amount.push_back(l.amount[label]);
      if (part.begin < part.end)
        fresh.loads.push_back(std::move(part));
    }
    s.m.vars.push_back(std::move(fresh));
  }

  for (int32_t v : region)
    for (int32_t id : whole.vars[v].pairs) {
      const Pair &old = whole.pairs[id];
      if (old.a != v || number[old.b] < 0)
        continue;
      Pair fresh{number[old.a], number[old.b], {}};
      PairView costs(whole, old, old.a);
      for (int32_t a : s.labelOf[fresh.a])
        for (int32_t b : s.labelOf[fresh.b])
          fresh.table.push_back(costs(a, b));
      auto newId = static_cast<int32_t>(s.m.pairs.size());
      s.m.vars[fresh.a].pairs.push_back(newId);
      s.m.vars[fresh.b].pairs.push_back(newId);
      s.m.pairs.push_back(std::move(fresh));
    }
  s.before = costOf(s.m, now);
  return s;
}

} // namespace heddle::solver
