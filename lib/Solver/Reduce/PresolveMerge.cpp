//===- PresolveMerge.cpp - Reductions that remove variables ---------------===//

#include "Reduce/Presolve.h"

#include <algorithm>
#include <map>

namespace heddle::solver {

/// Moves every table of the form `f(a) + g(b)` into the unary costs.
void Presolver::makePairsSeparable() {
  for (size_t i = 0; i < work.pairs.size(); ++i) {
    if (!pairAlive[i])
      continue;
    const Pair &p = work.pairs[i];
    Variable &a = work.vars[p.a], &b = work.vars[p.b];
    size_t width = b.unary.size();
    // With the cheapest entry of row 0 as the origin, no part is negative.
    const Cost *first = p.table.data();
    size_t base = std::min_element(first, first + width) - first;
    bool separable = true;
    for (size_t r = 0; r < a.unary.size() && separable; ++r) {
      const Cost *row = first + r * width;
      for (size_t c = 0; c < width; ++c)
        separable &= row[c] < kInfiniteCost &&
                     row[c] - row[base] == first[c] - first[base];
    }
    if (!separable)
      continue;
    for (size_t r = 0; r < a.unary.size(); ++r)
      a.unary[r] = addCosts(a.unary[r], first[r * width + base]);
    for (size_t c = 0; c < width; ++c)
      b.unary[c] = addCosts(b.unary[c], first[c] - first[base]);
    dropPair(static_cast<int32_t>(i));
  }
}

/// Makes a variable's loads disjoint and ascending again after a merge.
static void flattenLoads(Variable &v) {
  std::map<int32_t, std::vector<Usage>> steps;
  size_t size = v.unary.size();
  for (const Load &l : v.loads) {
    auto &up = steps[l.begin], &down = steps[l.end];
    up.resize(size);
    down.resize(size);
    for (size_t s = 0; s < size; ++s) {
      up[s] += l.amount[s];
      down[s] -= l.amount[s];
    }
  }
  v.loads.clear();
  std::vector<Usage> level(size, 0);
  for (auto it = steps.begin(); it != steps.end(); ++it) {
    for (size_t s = 0; s < size; ++s)
      level[s] += it->second[s];
    auto next = std::next(it);
    if (next == steps.end() ||
        std::ranges::all_of(level, [](Usage u) { return u == 0; }))
      continue;
    if (!v.loads.empty() && v.loads.back().end == it->first &&
        v.loads.back().amount == level)
      v.loads.back().end = next->first;
    else
      v.loads.push_back({it->first, next->first, level});
  }
}

/// If the finite entries of a pair match every value of `a` with exactly one of
/// `b` and the reverse, returns the match of every value of `a`; else an empty
/// list.
static std::vector<int32_t> bijection(const Pair &p, int32_t sizeA,
                                      int32_t sizeB) {
  if (sizeA != sizeB)
    return {};
  std::vector<int32_t> match(sizeA, -1);
  std::vector<char> taken(sizeB, 0);
  for (int32_t i = 0; i < sizeA; ++i)
    for (int32_t j = 0; j < sizeB; ++j)
      if (p.table[static_cast<size_t>(i) * sizeB + j] < kInfiniteCost) {
        if (match[i] >= 0 || taken[j])
          return {};
        match[i] = j;
        taken[j] = 1;
      }
  return std::ranges::count(match, -1) ? std::vector<int32_t>() : match;
}

void Presolver::mergeBijections() {
  std::vector<char> joined(work.vars.size(), 0);
  for (size_t i = 0; i < work.pairs.size(); ++i) {
    if (!pairAlive[i])
      continue;
    int32_t a = work.pairs[i].a, b = work.pairs[i].b;
    std::vector<int32_t> match =
        bijection(work.pairs[i], work.vars[a].size(), work.vars[b].size());
    if (match.empty())
      continue;
    if (work.vars[a].pairs.size() < work.vars[b].pairs.size()) {
      std::vector<int32_t> inverse(match.size());
      for (size_t s = 0; s < match.size(); ++s)
        inverse[match[s]] = static_cast<int32_t>(s);
      std::swap(a, b);
      match = std::move(inverse);
    }
    mergeInto(a, b, match, static_cast<int32_t>(i));
    joined[a] = 1;
  }
  for (size_t v = 0; v < work.vars.size(); ++v)
    if (joined[v] && alive[v])
      flattenLoads(work.vars[v]);
}

/// Merges variable `gone` into `kept`: value s of `kept` then also stands for
/// value `map[s]` of `gone`.
void Presolver::mergeInto(int32_t kept, int32_t gone,
                          const std::vector<int32_t> &map, int32_t pairId) {
  Variable &k = work.vars[kept], &g = work.vars[gone];
  PairView costs = view(pairId, kept);
  Removal r{gone, {kept}, {std::vector<int32_t>(firstSize[kept], -1)}, {}};
  for (int32_t s = 0; s < k.size(); ++s) {
    k.unary[s] =
        addCosts(k.unary[s], addCosts(g.unary[map[s]], costs(s, map[s])));
    r.indexOf[0][origin[kept][s]] = s;
    r.choice.push_back(origin[gone][map[s]]);
  }
  removals.push_back(std::move(r));
  for (Load &l : g.loads) {
    std::vector<Usage> amount(map.size());
    for (size_t s = 0; s < map.size(); ++s)
      amount[s] = l.amount[map[s]];
    k.loads.push_back({l.begin, l.end, std::move(amount)});
  }
  dropPair(pairId);
  while (!g.pairs.empty()) {
    int32_t id = g.pairs.back();
    int32_t third = work.pairs[id].other(gone);
    PairView old = view(id, gone);
    std::vector<Cost> table;
    table.reserve(work.pairs[id].table.size());
    for (int32_t s : map)
      for (int32_t t = 0; t < work.vars[third].size(); ++t)
        table.push_back(old(s, t));
    dropPair(id);
    addPair(kept, third, std::move(table));
  }
  alive[gone] = 0;
  g = {};
}

void Presolver::eliminateFree(const std::function<bool()> &stop) {
  std::vector<int32_t> queue;
  for (size_t v = work.vars.size(); v-- > 0;)
    if (alive[v])
      queue.push_back(static_cast<int32_t>(v));
  while (!queue.empty() && !stop()) {
    int32_t var = queue.back();
    queue.pop_back();
    const Variable &v = work.vars[var];
    if (!alive[var] ||
        (v.size() > 1 && (!v.loads.empty() || v.pairs.size() > 2)))
      continue;
    std::vector<int32_t> neighbours;
    neighbours.reserve(v.pairs.size());
    for (int32_t id : v.pairs)
      neighbours.push_back(work.pairs[id].other(var));
    eliminate(var);
    queue.insert(queue.end(), neighbours.begin(), neighbours.end());
  }
}

/// Replaces a variable by the cost of its best value, given its neighbours'
/// values. The variable must have a single value, or no load and at most two
/// neighbours.
void Presolver::eliminate(int32_t var) {
  Variable &v = work.vars[var];
  if (v.size() == 1) {
    for (const Load &l : v.loads)
      for (int32_t t = l.begin; t < l.end; ++t)
        work.capacity[t] -= l.amount[0];
    work.constant = addCosts(work.constant, v.unary[0]);
    removals.push_back({var, {}, {}, {origin[var][0]}});
    while (!v.pairs.empty()) {
      int32_t id = v.pairs.back();
      Variable &other = work.vars[work.pairs[id].other(var)];
      PairView costs = view(id, var);
      for (int32_t s = 0; s < other.size(); ++s)
        other.unary[s] = addCosts(other.unary[s], costs(0, s));
      dropPair(id);
    }
    alive[var] = 0;
    return;
  }
  Removal r{var, {}, {}, {}};
  std::vector<int32_t> ids = v.pairs;
  int32_t sizes[2] = {1, 1};
  for (size_t i = 0; i < ids.size(); ++i) {
    int32_t other = work.pairs[ids[i]].other(var);
    r.given.push_back(other);
    auto &index = r.indexOf.emplace_back(firstSize[other], -1);
    sizes[i] = work.vars[other].size();
    for (int32_t s = 0; s < sizes[i]; ++s)
      index[origin[other][s]] = s;
  }
  std::vector<Cost> best;
  for (int32_t i = 0; i < sizes[0]; ++i)
    for (int32_t j = 0; j < sizes[1]; ++j) {
      Cost least = kInfiniteCost;
      int32_t choice = 0;
      for (int32_t s = 0; s < v.size(); ++s) {
        Cost c = v.unary[s];
        if (!ids.empty())
          c = addCosts(c, view(ids[0], var)(s, i));
        if (ids.size() > 1)
          c = addCosts(c, view(ids[1], var)(s, j));
        if (c < least) {
          least = c;
          choice = s;
        }
      }
      best.push_back(least);
      r.choice.push_back(origin[var][choice]);
    }
  for (int32_t id : ids)
    dropPair(id);
  if (ids.empty()) {
    work.constant = addCosts(work.constant, best[0]);
  } else if (ids.size() == 1) {
    Variable &other = work.vars[r.given[0]];
    for (int32_t s = 0; s < other.size(); ++s)
      other.unary[s] = addCosts(other.unary[s], best[s]);
  } else {
    addPair(r.given[0], r.given[1], std::move(best));
  }
  alive[var] = 0;
  removals.push_back(std::move(r));
}

} // namespace heddle::solver
