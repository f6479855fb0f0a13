//===- OneLimit.cpp - The optimum where one time binds --------------------===//

#include "Exact/OneLimit.h"
#include "Exact/RunList.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle::solver {

namespace {

constexpr size_t kMaxTrace = 12'000'000; ///< Nodes: about 350 MB.

class OneLimitSearch {
public:
  OneLimitSearch(const Model &m, const Dual::Reduced &costs,
                 const TreeBound &bound, Cost below, double maxWork,
                 size_t maxList, const std::function<bool()> &stop)
      : m(m), tree(bound.getTables()), below(below), maxWork(maxWork),
        maxList(maxList), stop(stop),
        capacity(m.capacity.empty() ? std::numeric_limits<Usage>::max()
                                    : m.capacity[0]),
        price(m.capacity.empty() ? 0 : bound.getPrices()[0]),
        allowed(largestReduced(costs, below)), x(m.vars.size(), 0),
        buckets(m.vars.size()) {}

  ExactResult run();

private:
  struct Bucket {
    std::vector<int32_t> children;
    std::vector<int32_t> indexOf; ///< Separator entry -> list, or -1.
    std::vector<RunList> lists;
  };

  bool givesUp() {
    if (!gaveUp && (work > maxWork || trace.size() > kMaxTrace || stop()))
      gaveUp = true;
    return gaveUp;
  }
  void process(size_t index);
  const RunList *listFor(size_t child) const;
  void extend(size_t index, double limit, RunList &result);
  bool ownRun(size_t index, Run &own);
  RunList combine(const RunList &a, const RunList &b, double limit);
  bool trim(Run &r) const;
  void thinOut(RunList &list);
  void findStep(const RunList &list);
  ExactResult finish();

  const Model &m;
  const Elimination &tree;
  Cost below;
  double maxWork;
  size_t maxList;
  const std::function<bool()> &stop;
  Usage capacity;
  double price;
  double allowed; ///< No useful assignment has a larger priced cost.
  RunStep step;
  RunTrace trace;
  Labels x;
  std::vector<Bucket> buckets;
  std::vector<int32_t> roots;
  double work = 0;
  bool gaveUp = false;
  bool thinned = false;
};

/// The list of a child for the labels in `x`; null if nothing there is useful.
const RunList *OneLimitSearch::listFor(size_t child) const {
  int32_t found = buckets[child].indexOf[tree.entryOf(child, x)];
  return found < 0 ? nullptr : &buckets[child].lists[found];
}

/// What the bucket's variable adds, its pairs with the separator included.
bool OneLimitSearch::ownRun(size_t index, Run &own) {
  int32_t var = tree.getMembers()[index];
  const Variable &v = m.vars[var];
  own = {};
  own.total = v.unary[x[var]];
  for (int32_t id : v.pairs) {
    const Pair &p = m.pairs[id];
    if (tree.getPosition(p.other(var)) < static_cast<int32_t>(index))
      continue;
    size_t at = static_cast<size_t>(x[p.a]) * m.vars[p.b].size() + x[p.b];
    own.total = addCosts(own.total, p.table[at]);
  }
  for (const Load &l : v.loads)
    own.used += l.amount[x[var]];
  own.priced =
      static_cast<double>(own.total) + price * static_cast<double>(own.used);
  return own.total < kInfiniteCost && own.used <= capacity;
}

/// Leaves the points that keep the limit and cost less than what is known.
bool OneLimitSearch::trim(Run &r) const {
  if (r.used > capacity)
    return false;
  Cost largest = below - 1 - m.constant;
  if (r.count == 1)
    return r.total <= largest;
  Usage fits = (capacity - r.used) / step.more;
  if (fits < Usage(r.count) - 1)
    r.count = static_cast<uint32_t>(fits) + 1;
  if (r.total > largest) {
    Cost skip = (r.total - largest + step.less - 1) / step.less;
    if (skip >= Cost(r.count))
      return false;
    r.total -= skip * step.less;
    r.used += skip * step.more;
    r.first += static_cast<uint32_t>(skip);
    r.count -= static_cast<uint32_t>(skip);
  }
  return true;
}

/// The sums of two lists whose priced cost is at most `limit`.
RunList OneLimitSearch::combine(const RunList &a, const RunList &b,
                                double limit) {
  RunList result;
  std::vector<std::pair<uint32_t, uint32_t>> parts;
  for (uint32_t i = 0; i < a.size() && !givesUp(); ++i)
    for (uint32_t j = 0; j < b.size(); ++j) {
      double priced = a[i].priced + b[j].priced;
      if (priced > limit) // lists ascend
        break;
      ++work;
      Run r{a[i].total + b[j].total,
            a[i].used + b[j].used,
            a[i].count + b[j].count - 1,
            0,
            static_cast<uint32_t>(parts.size()),
            priced};
      if (!trim(r))
        continue;
      parts.emplace_back(i, j);
      result.push_back(r);
    }
  removeDominated(result, step, work, maxWork);
  for (Run &r : result) {
    auto [I, J] = parts[r.trace];
    r.trace = trace.addSum(a[I], b[J]);
  }
  joinRuns(result, step, trace);
  thinOut(result);
  return result;
}

/// Appends what the bucket and everything below it can come to at the labels
/// in `x`, at priced costs of at most `limit`.
void OneLimitSearch::extend(size_t index, double limit, RunList &result) {
  Run own;
  ++work;
  if (!ownRun(index, own))
    return;
  std::vector<const RunList *> parts;
  for (int32_t c : buckets[index].children) {
    parts.push_back(listFor(c));
    if (!parts.back())
      return;
    limit -= parts.back()->front().priced;
  }
  if (own.priced > limit || !trim(own))
    return;
  int32_t var = tree.getMembers()[index];
  own.trace = trace.addLabel(var, x[var]);
  RunList sum{own};
  for (const RunList *part : parts) {
    limit += part->front().priced;
    sum = combine(sum, *part, limit);
    if (sum.empty())
      return;
  }
  result.insert(result.end(), sum.begin(), sum.end());
}

/// Keeps the best of those that use similarly much.
void OneLimitSearch::thinOut(RunList &list) {
  if (!maxList || list.size() <= maxList)
    return;
  thinned = true;
  auto [Low, High] = std::ranges::minmax(list, {}, &Run::used);
  auto from = static_cast<double>(Low.used);
  double width = (static_cast<double>(High.used) - from) / maxList + 1;
  std::vector<char> taken(maxList + 1, 0);
  std::erase_if(list, [&](const Run &r) { // ascends in price
    auto place =
        static_cast<size_t>((static_cast<double>(r.used) - from) / width);
    return std::exchange(taken[place], 1) != 0;
  });
}

/// Points of a part that cost the same at the price tell the step of the runs:
/// the closest two, since others may be several steps apart.
void OneLimitSearch::findStep(const RunList &list) {
  if (step.more || list.size() < 2 || price <= 0)
    return;
  RunList sorted = list; // ascends in price
  for (size_t begin = 0, end; begin < sorted.size(); begin = end) {
    double same = 1e-10 * std::abs(sorted[begin].priced);
    for (end = begin + 1; end < sorted.size() &&
                          sorted[end].priced - sorted[end - 1].priced <= same;)
      ++end;
    std::sort(sorted.begin() + begin, sorted.begin() + end,
              [](const Run &a, const Run &b) { return a.used < b.used; });
    for (size_t i = begin + 1; i < end; ++i) {
      Usage more = sorted[i].used - sorted[i - 1].used;
      Cost less = sorted[i - 1].total - sorted[i].total;
      double worth = price * static_cast<double>(more);
      if (more <= 0 || less <= 0 ||
          std::abs(static_cast<double>(less) - worth) > 1e-9 * worth)
        continue;
      if (!step.more || more < step.more)
        step = {more, less};
    }
  }
}

void OneLimitSearch::process(size_t index) {
  Bucket &b = buckets[index];
  int32_t var = tree.getMembers()[index];
  size_t entries = tree.entryCount(index);
  b.indexOf.assign(entries, -1);
  for (size_t entry = 0; entry < entries && !givesUp(); ++entry) {
    double limit = allowed - tree.restAt(index, entry);
    if (!(tree.leastAt(index, entry) <= limit))
      continue;
    tree.setLabels(index, entry, x);
    RunList list;
    for (int32_t s = 0; s < m.vars[var].size(); ++s) {
      x[var] = s;
      extend(index, limit, list);
    }
    if (list.empty())
      continue;
    removeDominated(list, step, work, maxWork);
    findStep(list);
    joinRuns(list, step, trace);
    thinOut(list);
    b.indexOf[entry] = static_cast<int32_t>(b.lists.size());
    b.lists.push_back(std::move(list));
  }
  for (int32_t c : b.children)
    buckets[c] = {};
  if (tree.getParent(index) < 0)
    roots.push_back(static_cast<int32_t>(index));
  else
    buckets[tree.getParent(index)].children.push_back(
        static_cast<int32_t>(index));
}

/// Joins the components; the cheapest point that is left is the optimum.
ExactResult OneLimitSearch::finish() {
  ExactResult result;
  result.complete = true;
  double limit = allowed;
  for (int32_t r : roots) {
    if (buckets[r].lists.empty()) {
      result.complete = !thinned;
      result.work = work;
      return result;
    }
    limit -= buckets[r].lists[0].front().priced;
  }
  RunList sum{Run{}};
  for (int32_t r : roots) {
    const RunList &list = buckets[r].lists[0];
    limit += list.front().priced;
    sum = combine(sum, list, limit);
  }
  result.work = work;
  result.complete = !gaveUp && !thinned;
  if (gaveUp || sum.empty())
    return result;
  auto lastOf = [&](const Run &r) {
    return r.total - Cost(r.count - 1) * step.less;
  };
  const Run *best = &sum.front();
  for (const Run &r : sum)
    if (lastOf(r) < lastOf(*best))
      best = &r;
  Labels found(m.vars.size(), 0);
  trace.label(best->trace, best->first + best->count - 1, found);
  if (costOf(m, found) < below)
    result.best = std::move(found);
  return result;
}

ExactResult OneLimitSearch::run() {
  for (size_t i = 0; i < buckets.size(); ++i) {
    process(i);
    if (givesUp()) {
      ExactResult result;
      result.work = work;
      return result;
    }
  }
  return finish();
}

} // namespace

ExactResult solveOneLimit(const Model &m, const Dual::Reduced &costs,
                          const TreeBound &tree, Cost below, double maxWork,
                          size_t maxList, const std::function<bool()> &stop) {
  return OneLimitSearch(m, costs, tree, below, maxWork, maxList, stop).run();
}

} // namespace heddle::solver
