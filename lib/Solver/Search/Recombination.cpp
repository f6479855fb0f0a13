//===- Recombination.cpp - The best mixture of assignments ----------------===//

#include "Search/Recombination.h"
#include "Bound/Ascent.h"
#include "Exact/Exact.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace heddle::solver {

namespace {

/// The most components for which a mixture is searched.
constexpr size_t kMaxComponents = 400;
/// The most pairs of a way (see Group) and a time. Their usages take up to 480
/// MB for a moment.
constexpr double kMaxCells = 2e7;
/// The entries that the exact search may visit.
constexpr double kMaxEntries = 5e4;
/// The entries that the bound may visit: some hundred steps of the prices.
constexpr double kClimbQuota = 6e4;

/// The variables of one component. A way is one choice of labels for all of
/// them; the first way is that of the assignment to improve.
struct Group {
  std::vector<int32_t> vars;
  std::vector<Labels> ways; ///< By way: the labels of `vars`.
  std::vector<Cost> costs;  ///< By way: of the variables and all their pairs.
};

/// The components of the variables in which some assignment differs from `x`.
std::vector<Group> findGroups(const Model &m, const Labels &x,
                              const std::vector<const Labels *> &others) {
  std::vector<char> open(m.vars.size(), 0);
  for (const Labels *o : others)
    for (size_t v = 0; v < x.size(); ++v)
      open[v] |= (*o)[v] != x[v];
  std::vector<Group> groups;
  for (size_t first = 0; first < x.size(); ++first) {
    if (!open[first])
      continue;
    Group &g = groups.emplace_back();
    g.vars.push_back(static_cast<int32_t>(first));
    open[first] = 0;
    for (size_t next = 0; next < g.vars.size(); ++next)
      for (int32_t id : m.vars[g.vars[next]].pairs) {
        int32_t other = m.pairs[id].other(g.vars[next]);
        if (open[other]) {
          open[other] = 0;
          g.vars.push_back(other);
        }
      }
  }
  return groups;
}

/// The cost of the variables of `g` and their pairs at the labels of `way`.
/// `where` is scratch: -1 for every variable of the model.
Cost costOfWay(const Model &m, const Group &g, const Labels &way,
               const Labels &x, std::vector<int32_t> &where) {
  for (size_t i = 0; i < g.vars.size(); ++i)
    where[g.vars[i]] = way[i];
  Cost sum = 0;
  for (int32_t v : g.vars) {
    sum = addCosts(sum, m.vars[v].unary[where[v]]);
    for (int32_t id : m.vars[v].pairs) {
      const Pair &p = m.pairs[id];
      int32_t other = p.other(v);
      // A pair within the group counts once.
      if (where[other] >= 0 && other < v)
        continue;
      int32_t theirs = where[other] >= 0 ? where[other] : x[other];
      sum = addCosts(sum, PairView(m, p, v)(where[v], theirs));
    }
  }
  for (int32_t v : g.vars)
    where[v] = -1;
  return sum;
}

/// Adds to `g` the different ways of `x`, which comes first, and of `others`.
/// Leaves out ways of infinite cost.
void findWays(const Model &m, Group &g, const Labels &x,
              const std::vector<const Labels *> &others,
              std::vector<int32_t> &where) {
  auto add = [&](const Labels &from) {
    Labels way;
    for (int32_t v : g.vars)
      way.push_back(from[v]);
    if (std::ranges::find(g.ways, way) != g.ways.end())
      return;
    Cost sum = costOfWay(m, g, way, x, where);
    if (sum >= kInfiniteCost)
      return;
    g.ways.push_back(std::move(way));
    g.costs.push_back(sum);
  };
  add(x);
  for (const Labels *o : others)
    add(*o);
}

/// The usage of a way at every time.
std::vector<Usage> usageOfWay(const Model &m, const Group &g,
                              const Labels &way) {
  std::vector<Usage> used(m.capacity.size() + 1, 0);
  for (size_t i = 0; i < g.vars.size(); ++i)
    for (const Load &l : m.vars[g.vars[i]].loads) {
      used[l.begin] += l.amount[way[i]];
      used[l.end] -= l.amount[way[i]];
    }
  std::partial_sum(used.begin(), used.end(), used.begin());
  used.pop_back();
  return used;
}

/// The problem of the best mixture: a variable for each group, a value for each
/// way, and the times at which the limit could be exceeded.
struct Little {
  Model m;
  std::vector<double> prices;
};

Little build(const Model &m, const std::vector<Group> &groups, const Labels &x,
             const std::vector<double> &prices) {
  size_t times = m.capacity.size();
  std::vector<std::vector<std::vector<Usage>>> used(groups.size());
  std::vector<Usage> rest = usageOf(m, x), most(times, 0);
  for (size_t k = 0; k < groups.size(); ++k) {
    for (const Labels &way : groups[k].ways)
      used[k].push_back(usageOfWay(m, groups[k], way));
    for (size_t t = 0; t < times; ++t) {
      Usage largest = 0;
      for (const auto &row : used[k])
        largest = std::max(largest, row[t]);
      rest[t] -= used[k][0][t];
      most[t] += largest;
    }
  }
  Little result;
  result.m.vars.resize(groups.size());
  for (size_t k = 0; k < groups.size(); ++k)
    result.m.vars[k].unary = groups[k].costs;
  std::map<std::vector<Usage>, int32_t> known; ///< Usage of all ways -> time.
  std::vector<Usage> key;
  for (size_t t = 0; t < times; ++t) {
    Usage room = m.capacity[t] - rest[t];
    if (most[t] <= room)
      continue;
    key.clear();
    for (const auto &rows : used)
      for (const auto &row : rows)
        key.push_back(row[t]);
    auto count = static_cast<int32_t>(result.m.capacity.size());
    auto [at, fresh] = known.try_emplace(key, count);
    if (!fresh) {
      Usage &least = result.m.capacity[at->second];
      least = std::min(least, room);
      result.prices[at->second] += prices[t];
      continue;
    }
    result.m.capacity.push_back(room);
    result.prices.push_back(prices[t]);
    for (size_t k = 0; k < groups.size(); ++k) {
      Load l{count, count + 1, {}};
      for (const auto &row : used[k])
        l.amount.push_back(row[t]);
      if (std::ranges::any_of(l.amount, [](Usage u) { return u != 0; }))
        result.m.vars[k].loads.push_back(std::move(l));
    }
  }
  return result;
}

/// Returns the way of every group in the best mixture. If a time can bind,
/// returns it only if it costs less than `before`. Adds to `work`.
std::optional<Labels> findMixture(const Little &l, Cost before, double &work,
                                  const std::function<bool()> &stop) {
  if (l.m.capacity.empty()) {
    Labels cheapest;
    for (const Variable &v : l.m.vars)
      cheapest.push_back(static_cast<int32_t>(
          std::ranges::min_element(v.unary) - v.unary.begin()));
    return cheapest;
  }
  TablePool pool(l.m);
  Ascent climber(l.m, pool, {l.prices, {}});
  auto target = static_cast<double>(before);
  bool proven = climber.prove(target, kClimbQuota, stop);
  // The model has no pairs, so the work is counted by loads: a step of the
  // prices visits every load.
  size_t loads = l.m.capacity.size();
  for (const Variable &v : l.m.vars)
    loads += v.loads.size() * v.unary.size();
  work += climber.getWork() * 0.005 * static_cast<double>(loads);
  if (proven)
    return std::nullopt;
  // Search close to the bound first: the lists are short there, and the optimum
  // often is there.
  Dual::Reduced costs = climber.getBest().reducedCosts();
  double room = target - climber.getBound();
  for (int divisor = 64; divisor >= 1; divisor /= 4) {
    double part = 1.0 / divisor;
    Cost below =
        part < 1 ? static_cast<Cost>(climber.getBound() + part * room) : before;
    ExactResult found =
        solveExactly(l.m, costs, nullptr, below, kMaxEntries, 0, stop);
    work += found.work * 30;
    if (found.best || !found.complete)
      return found.best;
  }
  return std::nullopt;
}

} // namespace

double recombine(const Model &m, Candidate &c,
                 const std::vector<const Labels *> &others,
                 const std::vector<double> &prices,
                 const std::function<bool()> &stop) {
  auto work = static_cast<double>(m.vars.size() * (others.size() + 1));
  std::vector<Group> groups = findGroups(m, c.x, others);
  std::vector<int32_t> where(m.vars.size(), -1);
  for (Group &g : groups) {
    findWays(m, g, c.x, others, where);
    work += static_cast<double>(g.vars.size() * g.ways.size()) * 10;
  }
  std::erase_if(groups, [](const Group &g) { return g.ways.size() < 2; });
  double cells = 0;
  for (const Group &g : groups)
    cells += static_cast<double>(g.ways.size() * m.capacity.size());
  if (groups.empty() || groups.size() > kMaxComponents || cells > kMaxCells ||
      stop())
    return work;
  Little l = build(m, groups, c.x, prices);
  work += cells * 4;
  Cost before = 0;
  for (const Group &g : groups)
    before = addCosts(before, g.costs[0]);
  std::optional<Labels> found = findMixture(l, before, work, stop);
  if (!found)
    return work;
  Candidate next{c.x};
  for (size_t k = 0; k < groups.size(); ++k)
    for (size_t i = 0; i < groups[k].vars.size(); ++i)
      next.x[groups[k].vars[i]] = groups[k].ways[(*found)[k]][i];
  score(m, next);
  if (next.betterThan(c))
    c = std::move(next);
  return work;
}

double recombineAll(const Model &m, Candidate &c,
                    const std::vector<Labels> &others,
                    const std::vector<double> &prices, double quota, Random &r,
                    const std::function<bool()> &stop) {
  double work = 0;
  auto go = [&] { return c.isFeasible() && work < quota && !stop(); };
  size_t count = others.size();
  // Begin at a random one of `others`. Otherwise the quota would always be used
  // up before the last ones.
  for (size_t i = 0, first = count > 0 ? r.below(count) : 0; i < count && go();
       ++i)
    work += recombine(m, c, {&others[(first + i) % count]}, prices, stop);
  for (int attempt = 0; attempt < 3 && count > 2 && go(); ++attempt) {
    std::vector<const Labels *> some;
    for (size_t i = 2 + r.below(count - 1); i-- > 0;)
      some.push_back(&others[r.below(count)]);
    work += recombine(m, c, some, prices, stop);
  }
  return work;
}

} // namespace heddle::solver
