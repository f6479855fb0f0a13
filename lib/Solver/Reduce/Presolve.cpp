//===- Presolve.cpp - From a problem to a reduced model -------------------===//

#include "Reduce/Presolve.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace heddle::solver {

std::vector<int64_t> maximalTimes(const Problem &p) {
  struct Change {
    bool begins = false, ends = false;
  };
  std::map<int64_t, Change> changes;
  for (const Node &n : p.nodes)
    if (!n.live.empty()) {
      changes[n.live.begin].begins = true;
      changes[n.live.end].ends = true;
    }
  std::vector<int64_t> times;
  for (auto it = changes.begin(); it != changes.end(); ++it) {
    auto next = std::next(it);
    if (it->second.begins && next != changes.end() && next->second.ends)
      times.push_back(it->first);
  }
  return times;
}

Presolver::Presolver(const Problem &p) : nodeCount(p.nodes.size()) {
  addNodes(p);
  addEdges(p);
  for (int32_t size : firstSize)
    replacement.emplace_back(size, -1);
}

void Presolver::addNodes(const Problem &p) {
  std::vector<int64_t> times;
  if (p.usageLimit)
    times = maximalTimes(p);
  auto position = [&](int64_t time) {
    return static_cast<int32_t>(std::ranges::lower_bound(times, time) -
                                times.begin());
  };
  work.capacity.assign(times.size(), p.usageLimit.value_or(0));
  timeOf.resize(times.size());
  std::iota(timeOf.begin(), timeOf.end(), 0);
  for (const Node &n : p.nodes) {
    Variable v;
    v.unary.reserve(n.costs.size());
    for (Cost c : n.costs)
      v.unary.push_back(std::min(c, kInfiniteCost));
    Load l{position(n.live.begin), position(n.live.end), n.usages};
    if (l.begin < l.end)
      v.loads.push_back(std::move(l));
    origin.emplace_back(n.costs.size());
    std::iota(origin.back().begin(), origin.back().end(), 0);
    work.vars.push_back(std::move(v));
  }
  for (const Variable &v : work.vars)
    firstSize.push_back(v.size());
  alive.assign(work.vars.size(), 1);
}

void Presolver::addEdges(const Problem &p) {
  for (const Edge &e : p.edges) {
    bool distinct = true;
    for (size_t i = 0; i < e.nodes.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        distinct &= e.nodes[i] != e.nodes[j];
    if (e.nodes.size() == 1) {
      Variable &v = work.vars[e.nodes[0]];
      for (int32_t s = 0; s < v.size(); ++s)
        v.unary[s] = addCosts(v.unary[s], std::min(e.costs[s], kInfiniteCost));
    } else if (e.nodes.size() == 2 && distinct) {
      std::vector<Cost> table(e.costs);
      for (Cost &c : table)
        c = std::min(c, kInfiniteCost);
      addPair(e.nodes[0], e.nodes[1], std::move(table));
    } else {
      addWideEdge(p, e);
    }
  }
}

/// Makes a variable of an edge that joins three or more nodes or names a node
/// twice. The variable's values are the edge's combinations of finite cost. A
/// pair between the variable and each of the nodes forbids all values of the
/// node except the one of the combination.
void Presolver::addWideEdge(const Problem &p, const Edge &e) {
  std::vector<uint32_t> distinct(e.nodes);
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  std::vector<std::vector<int32_t>> values(distinct.size());
  Variable v;
  for (size_t entry = 0; entry < e.costs.size(); ++entry) {
    if (e.costs[entry] >= kInfiniteCost)
      continue;
    std::vector<int32_t> chosen(distinct.size(), -1);
    bool consistent = true;
    size_t rest = entry;
    for (size_t i = e.nodes.size(); i-- > 0;) {
      size_t size = p.nodes[e.nodes[i]].costs.size();
      int32_t value = static_cast<int32_t>(rest % size);
      rest /= size;
      int32_t &slot = chosen[std::ranges::lower_bound(distinct, e.nodes[i]) -
                             distinct.begin()];
      consistent &= slot < 0 || slot == value;
      slot = value;
    }
    if (!consistent)
      continue;
    v.unary.push_back(e.costs[entry]);
    for (size_t i = 0; i < distinct.size(); ++i)
      values[i].push_back(chosen[i]);
  }
  int32_t id = static_cast<int32_t>(work.vars.size());
  int32_t size = v.size();
  if (size == 0) {
    infeasible = true;
    reason = "an edge forbids every combination of its nodes";
  }
  origin.emplace_back(size);
  std::iota(origin.back().begin(), origin.back().end(), 0);
  firstSize.push_back(size);
  alive.push_back(1);
  work.vars.push_back(std::move(v));
  for (size_t i = 0; i < distinct.size(); ++i) {
    int32_t node = static_cast<int32_t>(distinct[i]);
    int32_t nodeSize = work.vars[node].size();
    std::vector<Cost> table(static_cast<size_t>(size) * nodeSize,
                            kInfiniteCost);
    for (int32_t s = 0; s < size; ++s)
      table[static_cast<size_t>(s) * nodeSize + values[i][s]] = 0;
    addPair(id, node, std::move(table));
  }
  wideEdges.push_back({id, std::move(distinct), std::move(values)});
}

static uint64_t pairKey(int32_t a, int32_t b) {
  return static_cast<uint64_t>(std::min(a, b)) << 32 |
         static_cast<uint32_t>(std::max(a, b));
}

int32_t Presolver::findPair(int32_t a, int32_t b) const {
  auto found = pairOf.find(pairKey(a, b));
  return found == pairOf.end() ? -1 : found->second;
}

/// Adds a table over `a` and `b`. If they have a pair already, adds the costs
/// to its table.
void Presolver::addPair(int32_t a, int32_t b, std::vector<Cost> table) {
  int32_t id = findPair(a, b);
  if (id < 0) {
    id = static_cast<int32_t>(work.pairs.size());
    pairOf[pairKey(a, b)] = id;
    work.pairs.push_back({a, b, std::move(table)});
    pairAlive.push_back(1);
    work.vars[a].pairs.push_back(id);
    work.vars[b].pairs.push_back(id);
    return;
  }
  Pair &p = work.pairs[id];
  int32_t sizeA = work.vars[a].size(), sizeB = work.vars[b].size();
  for (int32_t i = 0; i < sizeA; ++i)
    for (int32_t j = 0; j < sizeB; ++j) {
      size_t there = p.a == a ? static_cast<size_t>(i) * sizeB + j
                              : static_cast<size_t>(j) * sizeA + i;
      p.table[there] =
          addCosts(p.table[there], table[static_cast<size_t>(i) * sizeB + j]);
    }
}

void Presolver::detach(int32_t var, int32_t pairId) {
  auto &list = work.vars[var].pairs;
  auto found = std::ranges::find(list, pairId);
  *found = list.back();
  list.pop_back();
}

void Presolver::dropPair(int32_t id) {
  Pair &p = work.pairs[id];
  detach(p.a, id);
  detach(p.b, id);
  pairOf.erase(pairKey(p.a, p.b));
  pairAlive[id] = 0;
  p.table = {};
}

/// The size of the model: times, variables, values and pairs. Reductions make
/// it smaller.
size_t Presolver::measure() const {
  size_t sum = work.capacity.size();
  for (size_t v = 0; v < work.vars.size(); ++v)
    if (alive[v])
      sum += 1 + work.vars[v].unary.size();
  for (size_t p = 0; p < work.pairs.size(); ++p)
    sum += pairAlive[p];
  return sum;
}

bool Presolver::run(const std::function<bool()> &stop) {
  // Each step keeps the optimum, so any order is correct. Cheap steps come
  // first, so that expensive ones get a smaller model.
  const std::function<void()> steps[] = {
      [&] { makeArcConsistent(stop); }, [&] { reduceTimes(); },
      [&] { pruneByMemory(); },         [&] { makeArcConsistent(stop); },
      [&] { makePairsSeparable(); },    [&] { mergeBijections(); },
      [&] { removeDominated(stop); },   [&] { eliminateFree(stop); }};
  size_t before, after = measure();
  do {
    before = after;
    for (const auto &step : steps) {
      if (infeasible || stop())
        break;
      step();
    }
    after = measure();
    // The last few values of a large problem are not worth another round.
  } while (!infeasible && !stop() && after < before - before / 500);
  if (!infeasible)
    reduceTimes();
  return !infeasible;
}

Model Presolver::extract() const {
  Model m;
  m.capacity = work.capacity;
  m.constant = work.constant;
  std::vector<int32_t> numberOf(work.vars.size(), -1);
  for (size_t v = 0; v < work.vars.size(); ++v)
    if (alive[v]) {
      numberOf[v] = static_cast<int32_t>(m.vars.size());
      m.vars.push_back(work.vars[v]);
      m.vars.back().pairs.clear();
    }
  for (size_t i = 0; i < work.pairs.size(); ++i)
    if (pairAlive[i]) {
      const Pair &p = work.pairs[i];
      int32_t id = static_cast<int32_t>(m.pairs.size());
      m.pairs.push_back({numberOf[p.a], numberOf[p.b], p.table});
      m.vars[numberOf[p.a]].pairs.push_back(id);
      m.vars[numberOf[p.b]].pairs.push_back(id);
    }
  return m;
}

ModelNames Presolver::getNames() const {
  ModelNames names;
  for (size_t v = 0; v < work.vars.size(); ++v)
    if (alive[v]) {
      names.vars.push_back(static_cast<int32_t>(v));
      names.values.push_back(origin[v]);
    }
  names.times = timeOf;
  return names;
}

void Presolver::restrict(const std::vector<std::vector<char>> &keep) {
  size_t number = 0;
  for (size_t v = 0; v < work.vars.size(); ++v)
    if (alive[v])
      keepValues(static_cast<int32_t>(v), keep[number++]);
}

Assignment Presolver::expand(const Labels &x) const {
  Assignment a(work.vars.size(), 0);
  size_t number = 0;
  for (size_t v = 0; v < work.vars.size(); ++v)
    if (alive[v])
      a[v] = origin[v][x[number++]];
  for (size_t r = removals.size(); r-- > 0;) {
    const Removal &gone = removals[r];
    size_t entry = 0;
    for (size_t i = 0; i < gone.given.size(); ++i) {
      const auto &index = gone.indexOf[i];
      int32_t size = 1 + *std::ranges::max_element(index);
      entry = entry * size + index[a[gone.given[i]]];
    }
    a[gone.var] = gone.choice[entry];
  }
  a.resize(nodeCount);
  return a;
}

std::optional<Labels> Presolver::project(const Assignment &a) const {
  Assignment full = a;
  for (const WideEdge &e : wideEdges) {
    int32_t size = firstSize[e.var], value = 0;
    auto matches = [&](int32_t s) {
      for (size_t i = 0; i < e.nodes.size(); ++i)
        if (e.values[i][s] != a[e.nodes[i]])
          return false;
      return true;
    };
    while (value < size && !matches(value))
      ++value;
    if (value == size)
      return std::nullopt;
    full.push_back(value);
  }
  Labels x;
  for (size_t v = 0; v < work.vars.size(); ++v) {
    if (!alive[v])
      continue;
    int32_t value = full[v];
    while (replacement[v][value] >= 0)
      value = replacement[v][value];
    auto found = std::ranges::find(origin[v], value);
    if (found == origin[v].end())
      return std::nullopt;
    x.push_back(static_cast<int32_t>(found - origin[v].begin()));
  }
  return x;
}

} // namespace heddle::solver
