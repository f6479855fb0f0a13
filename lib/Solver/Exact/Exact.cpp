//===- Exact.cpp - The cheapest assignment, or a proof of none ------------===//

#include "Exact/Exact.h"
#include "Exact/Buckets.h"

#include <algorithm>
#include <limits>

namespace heddle::solver {

namespace {

/// The most memory of the lists and their trace.
constexpr size_t kMaxBytes = size_t(400) << 20;

class ExactSearch {
public:
  ExactSearch(const Model &m, const Dual::Reduced &bound, const TreeBound *tree,
              Cost below, double maxWork, size_t maxList,
              const std::function<bool()> &stop)
      : m(m), below(below), maxWork(maxWork), maxList(maxList), stop(stop),
        red(bound), tree(tree), allowed(largestReduced(bound, below)),
        x(m.vars.size(), -1) {
    if (tree && m.capacity.size() == 1)
      price = tree->getPrices()[0];
  }

  ExactResult run();

private:
  bool givesUp() {
    // `stop` is called only now and then, because a call takes as long as an
    // entry.
    gaveUp |=
        work > maxWork || bytes() > kMaxBytes || (asked++ % 64 == 0 && stop());
    return gaveUp;
  }
  size_t bytes() const { return listBytes + trace.bytes(); }
  uint64_t keyOf(const std::vector<int32_t> &vars) const;
  Labels labelsOf(const std::vector<int32_t> &vars, uint64_t key) const;
  void process(Bucket &b);
  void extend(Bucket &b, const std::vector<int32_t> &missing, size_t next,
              double reduced);
  double reducedOf(int32_t var) const;
  void addEntries(Bucket &b);
  ParetoEntry ownEntry(const Bucket &b) const;
  bool findOwnUsage(const Bucket &b);
  /// The largest useful total of an entry.
  Cost largestTotal() const { return below - 1 - m.constant; }
  bool trim(ParetoEntry &e, Usage &used, Usage room) const;
  ParetoList combine(const Bucket &b, const ParetoList &have,
                     const ParetoList &child,
                     const std::vector<int32_t> &fullInChild, double limit);
  void finish(ParetoList &list);

  const Model &m;
  Cost below;
  double maxWork;
  size_t maxList;
  const std::function<bool()> &stop;
  const Dual::Reduced &red;
  const TreeBound *tree;
  double allowed; ///< No useful assignment has larger costs in `red`.
  std::vector<Bucket> buckets;
  PartTrace trace;
  double price = 0; ///< The price of the only time, if lists may have runs.
  RunStep step;
  Labels x; ///< The labels enumerated for a bucket; -1: none yet.
  std::vector<const ParetoList *> parts; ///< Scratch, as is the next.
  std::vector<Usage> used;
  double work = 0;
  size_t listBytes = 0; ///< Of all buckets' lists and the one being made.
  unsigned asked = 0;   ///< The number of calls of `givesUp`.
  bool gaveUp = false;
  bool thinned = false;
};

uint64_t ExactSearch::keyOf(const std::vector<int32_t> &vars) const {
  uint64_t key = 0;
  for (int32_t v : vars)
    key = key * m.vars[v].size() + x[v];
  return key;
}

Labels ExactSearch::labelsOf(const std::vector<int32_t> &vars,
                             uint64_t key) const {
  Labels result(vars.size());
  for (size_t i = vars.size(); i-- > 0;) {
    auto size = static_cast<uint64_t>(m.vars[vars[i]].size());
    result[i] = static_cast<int32_t>(key % size);
    key /= size;
  }
  return result;
}

/// Returns the increase of the reduced cost when the label of `var` is added to
/// the other labels in `x`.
double ExactSearch::reducedOf(int32_t var) const {
  double sum = red.unary[var][x[var]];
  for (int32_t id : m.vars[var].pairs) {
    const Pair &p = m.pairs[id];
    if (x[p.other(var)] < 0)
      continue;
    size_t at = static_cast<size_t>(x[p.a]) * m.vars[p.b].size() + x[p.b];
    if (p.table[at] >= kInfiniteCost)
      return std::numeric_limits<double>::infinity();
    sum += red.pairs[id][at];
  }
  return sum;
}

/// Enumerates the useful labels of the bucket's variables, and makes the
/// bucket's lists. Starts from the labels for which the child with the widest
/// separator has lists.
void ExactSearch::process(Bucket &b) {
  std::vector<int32_t> missing = b.separator;
  if (b.var >= 0)
    missing.push_back(b.var);
  const Bucket *widest = nullptr;
  for (int32_t c : b.children)
    if (!widest || buckets[c].separator.size() > widest->separator.size())
      widest = &buckets[c];
  if (!widest) {
    extend(b, missing, 0, 0);
  } else {
    for (int32_t v : widest->separator)
      std::erase(missing, v);
    for (const auto &[key, list] : widest->lists) {
      Labels chosen = labelsOf(widest->separator, key);
      double reduced = list[0].reduced;
      for (size_t i = 0; i < chosen.size(); ++i) {
        int32_t v = widest->separator[i];
        x[v] = chosen[i];
        reduced += reducedOf(v);
      }
      if (reduced <= allowed)
        extend(b, missing, 0, reduced);
      for (int32_t v : widest->separator)
        x[v] = -1;
      if (givesUp())
        return;
    }
  }
  for (auto &[key, list] : b.lists) {
    listBytes -= list.bytes();
    list.project(b.openInFull, step);
    work += list.removeDominated(step, maxWork - work);
    if (price > 0 && !step.more && list.getDimensions() == 1) {
      list.sortByReduced();
      list.findStep(price, step);
    }
    finish(list);
    listBytes += list.bytes();
    if (givesUp())
      return;
  }
  for (int32_t c : b.children) {
    for (const auto &[key, list] : buckets[c].lists)
      listBytes -= list.bytes();
    buckets[c].lists = {};
  }
}

void ExactSearch::extend(Bucket &b, const std::vector<int32_t> &missing,
                         size_t next, double reduced) {
  if (++work, givesUp())
    return;
  if (next == missing.size()) {
    addEntries(b);
    return;
  }
  int32_t v = missing[next];
  for (int32_t s = 0; s < m.vars[v].size(); ++s) {
    x[v] = s;
    double sum = reduced + reducedOf(v);
    if (sum <= allowed && sum < std::numeric_limits<double>::infinity())
      extend(b, missing, next + 1, sum);
  }
  x[v] = -1;
}

/// Returns the cost of the bucket's variable and its pairs with the separator.
ParetoEntry ExactSearch::ownEntry(const Bucket &b) const {
  ParetoEntry e;
  if (b.var < 0)
    return e;
  const Variable &v = m.vars[b.var];
  e.total = v.unary[x[b.var]];
  e.reduced = red.unary[b.var][x[b.var]];
  for (int32_t id : v.pairs) {
    const Pair &p = m.pairs[id];
    if (x[p.other(b.var)] < 0)
      continue;
    size_t at = static_cast<size_t>(x[p.a]) * m.vars[p.b].size() + x[p.b];
    e.total = addCosts(e.total, p.table[at]);
    e.reduced += red.pairs[id][at];
  }
  return e;
}

/// Sets `used` to the usage of the bucket's variable. Returns whether that
/// usage keeps the limit.
bool ExactSearch::findOwnUsage(const Bucket &b) {
  used.assign(b.full.size(), 0);
  bool fits = true;
  if (b.var >= 0)
    for (const Load &l : m.vars[b.var].loads)
      for (size_t d = 0; d < used.size(); ++d)
        if (l.begin <= b.full[d].begin && b.full[d].end <= l.end) {
          used[d] = l.amount[x[b.var]];
          fits &= used[d] <= b.room[d];
        }
  return fits;
}

/// Cuts a run down to the points that keep the limit and cost less than
/// `below`. Returns false if there are none. The run's first point must keep
/// the limit.
bool ExactSearch::trim(ParetoEntry &e, Usage &used, Usage room) const {
  Cost largest = largestTotal();
  e.count = static_cast<uint32_t>(
      std::min<Usage>(e.count, (room - used) / step.more + 1));
  if (e.total <= largest)
    return true;
  Cost skip = (e.total - largest + step.less - 1) / step.less;
  if (skip >= Cost(e.count))
    return false;
  e.total -= skip * step.less;
  used += skip * step.more;
  e.first += static_cast<uint32_t>(skip);
  e.count -= static_cast<uint32_t>(skip);
  return true;
}

/// Joins runs, sorts the list by reduced cost, and thins it out to `maxList`
/// entries if that is not 0.
void ExactSearch::finish(ParetoList &list) {
  bool isLine = list.getDimensions() == 1;
  if (isLine && step.more && list.size() > 1)
    list.joinRuns(step, trace);
  list.sortByReduced();
  if (!isLine || !maxList || list.size() <= maxList)
    return;
  list.thinOut(maxList);
  thinned = true;
}

/// Returns the sums of the entries of two lists whose reduced cost is at most
/// `limit`.
ParetoList ExactSearch::combine(const Bucket &b, const ParetoList &have,
                                const ParetoList &child,
                                const std::vector<int32_t> &fullInChild,
                                double limit) {
  size_t dimensions = b.full.size(), grown = 0;
  ParetoList result(dimensions);
  result.reserve(child.size());
  used.resize(dimensions);
  // The loop over all pairs takes most of the search's time.
  const Usage *room = b.room.data();
  const int32_t *inChild = fullInChild.data();
  Usage *sum = used.data();
  Cost largest = largestTotal();
  for (size_t i = 0; i < have.size() && !givesUp(); ++i) {
    const ParetoEntry first = have[i];
    const Usage *usedByFirst = have.getUsage(i);
    const Usage *usedBySecond = child.getUsage(0);
    size_t j = 0, size = child.size();
    for (; j < size; ++j, usedBySecond += child.getDimensions()) {
      const ParetoEntry &second = child[j];
      double reduced = first.reduced + second.reduced;
      if (reduced > limit) // reduced costs ascend
        break;
      Cost total = first.total + second.total;
      uint32_t count = first.count + second.count - 1;
      if (count == 1 && total > largest)
        continue;
      bool fits = true;
      for (size_t d = 0; d < dimensions; ++d) {
        sum[d] =
            usedByFirst[d] + (inChild[d] < 0 ? 0 : usedBySecond[inChild[d]]);
        fits &= sum[d] <= room[d];
      }
      ParetoEntry e{total, reduced, i << 32 | j, count};
      if (fits && (count == 1 || trim(e, sum[0], room[0])))
        result.add(e, sum);
    }
    work += static_cast<double>(j);
    listBytes += result.bytes() - grown;
    grown = result.bytes();
  }
  listBytes -= grown;
  // If `have` is a single entry, the sums are in the order of the child's list,
  // and no sum dominates another.
  bool isShifted = have.size() == 1 && dimensions == 1;
  work += isShifted ? static_cast<double>(result.size())
                    : result.removeDominated(step, maxWork - work);
  for (size_t k = 0; k < result.size(); ++k) {
    uint64_t from = result[k].trace;
    result[k].trace = trace.addSum(have[from >> 32], child[from & 0xffffffff]);
  }
  if (!isShifted)
    finish(result);
  return result;
}

/// Adds the costs and usages that the bucket and everything below it can have
/// at the labels in `x`.
void ExactSearch::addEntries(Bucket &b) {
  // The largest reduced cost that the bucket may have, minus the least reduced
  // cost of each of its children.
  double limit = allowed;
  if (tree && b.var >= 0)
    limit -= tree->rest(static_cast<size_t>(&b - buckets.data()), x);
  parts.clear();
  for (int32_t c : b.children) {
    auto found = buckets[c].lists.find(keyOf(buckets[c].separator));
    if (found == buckets[c].lists.end())
      return;
    parts.push_back(&found->second);
    limit -= found->second[0].reduced;
  }
  ParetoEntry own = ownEntry(b);
  if (own.reduced > limit || !findOwnUsage(b))
    return;
  if (b.var >= 0)
    own.trace = trace.addLabel(b.var, x[b.var]);
  ParetoList list(b.full.size());
  list.add(own, used.data());
  for (size_t c = 0; c < parts.size(); ++c) {
    limit += (*parts[c])[0].reduced;
    list = combine(b, list, *parts[c], b.fullInChild[c], limit);
    if (list.size() == 0)
      return;
  }
  auto place = b.lists.try_emplace(keyOf(b.separator), b.full.size()).first;
  listBytes += list.bytes();
  place->second.append(std::move(list));
}

ExactResult ExactSearch::run() {
  ExactResult result;
  if (m.vars.empty() || !layOutBuckets(m, tree, buckets))
    return result;
  for (Bucket &b : buckets) {
    process(b);
    if (givesUp()) {
      result.work = work;
      return result;
    }
  }
  result.complete = !thinned;
  result.work = work;
  const auto &last = buckets.back().lists;
  if (last.empty())
    return result;
  const ParetoList &list = last.begin()->second;
  // No time is open above the root, so its list has a single entry.
  Labels found(m.vars.size(), 0);
  trace.label(list[0], found);
  if (costOf(m, found) < below)
    result.best = std::move(found);
  return result;
}

} // namespace

double largestReduced(const Dual::Reduced &costs, Cost below) {
  if (below >= kInfiniteCost)
    return std::numeric_limits<double>::infinity();
  auto limit = static_cast<double>(below);
  return limit - 1 - costs.bound + 10 * costs.rounding + 1e-11 * limit;
}

ExactResult solveExactly(const Model &m, const Dual::Reduced &costs,
                         const TreeBound *tree, Cost below, double maxWork,
                         size_t maxList, const std::function<bool()> &stop) {
  return ExactSearch(m, costs, tree, below, maxWork, maxList, stop).run();
}

} // namespace heddle::solver
