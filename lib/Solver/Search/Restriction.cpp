//===- Restriction.cpp - Search among few values per variable -------------===//

#include "Search/Restriction.h"

#include <algorithm>

namespace heddle::solver {

Restriction restrictTo(const Model &whole,
                       std::vector<std::vector<int32_t>> keep) {
  Restriction result;
  Model &m = result.m;
  m.capacity = whole.capacity;
  m.constant = whole.constant;
  for (size_t v = 0; v < whole.vars.size(); ++v) {
    const Variable &old = whole.vars[v];
    Variable fresh;
    fresh.pairs = old.pairs;
    for (int32_t s : keep[v])
      fresh.unary.push_back(old.unary[s]);
    for (const Load &l : old.loads) {
      Load part{l.begin, l.end, {}};
      for (int32_t s : keep[v])
        part.amount.push_back(l.amount[s]);
      fresh.loads.push_back(std::move(part));
    }
    m.vars.push_back(std::move(fresh));
  }
  for (const Pair &old : whole.pairs) {
    Pair fresh{old.a, old.b, {}};
    PairView costs(whole, old, old.a);
    for (int32_t a : keep[old.a])
      for (int32_t b : keep[old.b])
        fresh.table.push_back(costs(a, b));
    m.pairs.push_back(std::move(fresh));
  }
  result.labelOf = std::move(keep);
  return result;
}

std::vector<std::vector<int32_t>>
likelyValues(const Labels &current,
             const std::vector<std::vector<double>> &valueBounds, size_t count,
             Random &r) {
  std::vector<std::vector<int32_t>> result;
  std::vector<std::pair<double, int32_t>> ranked;
  for (size_t v = 0; v < current.size(); ++v) {
    const std::vector<double> &bounds = valueBounds[v];
    double least = *std::ranges::min_element(bounds);
    ranked.clear();
    for (size_t s = 0; s < bounds.size(); ++s)
      if (static_cast<int32_t>(s) != current[v])
        ranked.emplace_back((bounds[s] - least) * (0.5 + r.unit()),
                            static_cast<int32_t>(s));
    size_t others = std::min(ranked.size(), count - 1);
    std::partial_sort(ranked.begin(), ranked.begin() + others, ranked.end());
    auto &row = result.emplace_back(1, current[v]);
    for (size_t i = 0; i < others; ++i)
      row.push_back(ranked[i].second);
  }
  return result;
}

std::vector<std::vector<int32_t>>
proposedValues(const Labels &current, const std::vector<Labels> &proposals) {
  std::vector<std::vector<int32_t>> result;
  for (size_t v = 0; v < current.size(); ++v) {
    auto &row = result.emplace_back(1, current[v]);
    for (const Labels &x : proposals)
      if (std::ranges::find(row, x[v]) == row.end())
        row.push_back(x[v]);
  }
  return result;
}

double improveRestricted(const Model &m, Candidate &c,
                         const std::vector<double> &prices,
                         std::vector<std::vector<int32_t>> keep, double quota,
                         Random &r, const std::function<bool()> &stop) {
  Restriction few = restrictTo(m, std::move(keep));
  TablePool pool(few.m);
  CostTables tables(few.m, pool);
  Search engine(tables, r.next());
  Candidate inner;
  inner.x.assign(m.vars.size(), 0);
  score(few.m, inner);
  double entries = 0;
  for (const Pair &p : few.m.pairs)
    entries += static_cast<double>(p.table.size()) * 8;
  engine.improveAtOnce(inner, prices, quota / 2, stop);
  engine.improve(inner, prices,
                 std::max(0.0, quota - entries - engine.getWork()), 0, stop);
  Candidate found;
  for (size_t v = 0; v < m.vars.size(); ++v)
    found.x.push_back(few.labelOf[v][inner.x[v]]);
  score(m, found);
  if (found.betterThan(c))
    c = std::move(found);
  return entries + engine.getWork();
}

} // namespace heddle::solver
