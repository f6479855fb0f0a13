//===- Stage.cpp - All searches on one reduced model ----------------------===//

#include "Search/Stage.h"
#include "Search/Parallel.h"
#include "Search/Recombination.h"
#include "Search/Restriction.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace heddle::solver {

namespace {
/// The number of walkers. The first `kExploiting` improve `exploited`; each of
/// the others searches on its own for a number of rounds, its life.
constexpr size_t kWalkerCount = 8;
constexpr size_t kExploiting = 3;
/// The exploiting walker that tries the values that the bound makes likely, and
/// the one that tries the values of one proposal. The third exploiting walker
/// mixes all proposals.
constexpr size_t kTriesLikely = 1, kTriesOneProposal = 2;
/// Rounds of a life. Short lives find assignments that differ everywhere, long
/// ones good assignments.
constexpr int kLifetimes[kWalkerCount - kExploiting] = {2, 3, 5, 9, 25};
/// The number of assignments kept from the ends of lives.
constexpr size_t kMaxEnded = 12;
/// The most proposals whose values are searched together. More proposals would
/// have nearly all values.
constexpr size_t kMaxFused = 8;
/// Rounds for which `exploited` may stay as it is.
constexpr int kPatience = 20;
/// The work of one entry of the exact search, in entries of the other searches:
/// in general, and if a single time binds. Then the exact search's share of all
/// work.
constexpr double kExactWeight = 30;
constexpr double kOneLimitWeight = 4;
constexpr double kExactShare = 0.2;
/// The most table entries for which the exact bound is computed.
constexpr double kMaxTreeEntries = 3e6;
/// Entries that the exact search visits before all other searches if a single
/// time binds. They take a fraction of a second.
constexpr double kFirstBudget = 1.5e7;
} // namespace

Stage::Stage(Model reduced, uint64_t seed, const DualState &from)
    : m(std::move(reduced)), pool(m), tables(m, pool), climber(m, pool, from),
      tree(tables, pool, kMaxTreeEntries), proven(climber.getBound()) {
  Random r(seed);
  for (size_t i = 0; i < kWalkerCount; ++i)
    walkers.push_back(
        std::make_unique<Walker>(Walker{Search(tables, r.next()), {}}));
  for (auto &w : walkers)
    w->luck = Random(r.next());
  double entries = static_cast<double>(tables.valueCount());
  for (const Pair &p : m.pairs)
    entries += static_cast<double>(p.table.size());
  roundQuota = std::clamp(entries * 12, 2e5, 2e7);
  climbQuota = climber.getPassWork() * 12;
  best.x.assign(m.vars.size(), 0);
  score(m, best);
  exploited = best;
  for (auto &w : walkers)
    w->current = best;
}

double Stage::getWork() const {
  double sum = climber.getWork() + exactWork + tree.getWork();
  for (const auto &w : walkers)
    sum += w->engine.getWork() + w->extraWork;
  return sum;
}

void Stage::adopt(const Labels &x) {
  Candidate c;
  c.x = x;
  score(m, c);
  if (c.betterThan(best))
    best = exploited = c;
}

/// Gives every variable with loads the value that uses least, summed over time.
/// Then gives the variables without loads, one after another, the value that is
/// cheapest with the values chosen so far.
static Labels leastUsageLabels(const Model &m) {
  Labels x(m.vars.size(), -1);
  for (size_t v = 0; v < m.vars.size(); ++v) {
    std::vector<double> sum(m.vars[v].unary.size(), 0);
    for (const Load &l : m.vars[v].loads)
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += static_cast<double>(l.amount[s]) * (l.end - l.begin);
    if (!m.vars[v].loads.empty())
      x[v] = static_cast<int32_t>(std::ranges::min_element(sum) - sum.begin());
  }
  for (size_t v = 0; v < m.vars.size(); ++v) {
    if (x[v] >= 0)
      continue;
    const Variable &var = m.vars[v];
    std::vector<double> sum(var.unary.begin(), var.unary.end());
    for (int32_t id : var.pairs) {
      const Pair &p = m.pairs[id];
      int32_t other = x[p.other(static_cast<int32_t>(v))];
      if (other < 0)
        continue;
      PairView costs(m, p, static_cast<int32_t>(v));
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += static_cast<double>(costs(static_cast<int32_t>(s), other));
    }
    x[v] = static_cast<int32_t>(std::ranges::min_element(sum) - sum.begin());
  }
  return x;
}

void Stage::begin(double target, Cost known,
                  const std::function<bool()> &stop) {
  adopt(leastUsageLabels(m));
  climber.climb(target, climbQuota * 4, stop);
  adopt(climber.getGuess());
  if (!tree.isUsable())
    return;
  double aim = isFeasible() ? static_cast<double>(best.total) : target;
  tree.climb(climber.getBest().getPrices(), aim, stop);
  adopt(tree.getFeasibleLabels().value_or(tree.getLabels()));
  oneLimit = m.capacity.size() <= 1;
  if (!oneLimit)
    return;
  forExact.emplace();
  exactBudget = kFirstBudget;
  constructOneLimit(stop);
  if (finished)
    return;
  if (isFeasible())
    known = std::min(known, best.total);
  tryExact(known, stop);
  takeExact();
}

/// Finds an assignment by the exact search with shortened lists, which is fast
/// and nearly exact. Looks for costs a little above the bound first, where
/// lists are short anyway.
void Stage::constructOneLimit(const std::function<bool()> &stop) {
  constexpr double kBudget = kFirstBudget / 3;
  size_t maxList = 24;
  prepareTree();
  double gap = 2e-5 * std::abs(tree.getBound()) + 1;
  for (int attempt = 0; attempt < 10 && !stop(); ++attempt) {
    double reach = tree.getBound() + gap;
    Cost below = isFeasible() ? best.total : kInfiniteCost;
    bool last = reach >= static_cast<double>(below);
    if (!last)
      below = static_cast<Cost>(reach);
    ExactResult r =
        solveExactly(m, *forExact, &tree, below, kBudget, maxList, stop);
    exactWork += r.work * exactWeight();
    if (r.complete)
      proven = std::max(proven, static_cast<double>(below));
    if (r.best)
      adopt(*r.best);
    finished = r.complete && (r.best || last);
    if (finished)
      return;
    if (r.work > kBudget && maxList > 2)
      maxList /= 2;
    else if (r.best || last)
      return;
    else
      gap *= 2.5;
  }
}

double Stage::getBound() const {
  return std::max({climber.getBound(), proven,
                   tree.isUsable() ? tree.getBound() : climber.getBound()});
}

/// Decodes an assignment from the bound, with noise.
Labels Stage::sample(Random &r) const {
  // The noise is relative to the gap, but to 1 % of the bound at least: less
  // noise would always give the same assignment.
  double gap = std::max(
      {1.0, static_cast<double>(best.total) - bound, 0.01 * std::abs(bound)});
  double noise = std::pow(10.0, -1 - 3 * r.unit()) * gap;
  double priceFactor = std::pow(2.0, 2 * r.unit() - 1);
  return relaxed->sample(noise, priceFactor, r);
}

/// Lists a few values of every variable, the walker's own value first. The
/// others are those of proposals, or those that the bound makes likely. A
/// proposal may be better in some variables even if it costs more as a whole.
std::vector<std::vector<int32_t>>
Stage::valuesToTry(size_t index, Walker &w, const std::function<bool()> &stop) {
  if (index == kTriesLikely || proposals.empty())
    return likelyValues(w.current.x, valueBounds,
                        2 + static_cast<size_t>(w.age / 2) % 4, w.luck);
  if (index == kTriesOneProposal)
    return proposedValues(w.current.x,
                          {proposals[w.luck.below(proposals.size())]});
  w.extraWork +=
      recombineAll(m, w.current, proposals, prices, roundQuota, w.luck, stop);
  std::vector<Labels> some;
  size_t skip = proposals.size() - std::min(proposals.size(), kMaxFused);
  for (size_t i = 0; i < proposals.size(); ++i)
    if (w.luck.below(proposals.size() - i) >= skip)
      some.push_back(proposals[i]);
    else
      --skip;
  return proposedValues(w.current.x, some);
}

void Stage::walkRestricted(size_t index, const std::function<bool()> &stop) {
  Walker &w = *walkers[index];
  auto keep = valuesToTry(index, w, stop);
  if (std::ranges::all_of(keep, [](const auto &row) { return row.size() < 2; }))
    return w.engine.improve(w.current, prices, roundQuota, 0, stop);
  w.extraWork += improveRestricted(m, w.current, prices, std::move(keep),
                                   roundQuota, w.luck, stop);
}

/// Sets the walker to `exploited` with one variable pinned at another value, so
/// that the other variables must adapt to it. The value's bound is below the
/// best cost. Returns false if no such value was found.
bool Stage::pinOther(Walker &w) {
  double least = static_cast<double>(best.total);
  int32_t chosen = -1, value = -1;
  // Take the value with the least bound of this many random ones.
  size_t choices = 1 + w.luck.below(12);
  for (size_t attempt = 0; attempt < 40 * choices && choices > 0; ++attempt) {
    size_t v = w.luck.below(m.vars.size());
    size_t s = w.luck.below(m.vars[v].size());
    if (static_cast<int32_t>(s) == exploited.x[v] ||
        valueBounds[v][s] >= static_cast<double>(best.total))
      continue;
    --choices;
    if (valueBounds[v][s] < least) {
      least = valueBounds[v][s];
      chosen = static_cast<int32_t>(v);
      value = static_cast<int32_t>(s);
    }
  }
  if (chosen < 0)
    return false;
  w.current = exploited;
  w.current.x[chosen] = value;
  w.engine.pin(chosen);
  return true;
}

/// Gives the walker a new assignment to start from: the bound's guess or a
/// sample of the bound. If `mayPin` is set and the exploited assignment is
/// close to the bound, sometimes the exploited assignment with a pinned value
/// instead.
void Stage::setOut(Walker &w, bool mayPin, const std::function<bool()> &stop) {
  w.engine.pin(-1);
  bool near =
      exploited.isFeasible() &&
      static_cast<double>(exploited.total) - bound < 0.01 * std::abs(bound);
  if (mayPin && near && w.luck.below(4) == 0 && pinOther(w)) {
    w.unpin = w.left / 2;
  } else {
    w.unpin = 0;
    w.current.x = w.luck.below(2) ? sample(w.luck) : guess;
  }
  score(m, w.current);
  w.engine.construct(w.current, prices, 100 * roundQuota, stop);
}

void Stage::walk(size_t index, bool afresh, const std::function<bool()> &stop) {
  Walker &w = *walkers[index];
  if (index < kExploiting && !settingOut) {
    w.current = exploited;
    if (w.age++ % 2 == 0 || index == kTriesOneProposal)
      walkRestricted(index, stop);
    else
      w.engine.improve(w.current, prices, roundQuota, 0, stop);
    return;
  }
  Cost tolerance = 0;
  if (index < kExploiting) {
    setOut(w, false, stop);
  } else if (afresh || w.left == 0) {
    w.left = kLifetimes[index - kExploiting];
    setOut(w, !settingOut, stop);
  } else {
    double gap = static_cast<double>(w.current.total) - bound;
    tolerance = static_cast<Cost>(std::max(0.0, gap) * 1e-3);
  }
  w.engine.improve(w.current, prices, roundQuota, tolerance, stop);
  if (index >= kExploiting && --w.left == w.unpin)
    w.engine.pin(-1);
}

/// The price of the memory that the best assignment leaves unused, as a share
/// of the gap. It is small if prices are right.
double Stage::unusedShareOfGap() const {
  std::vector<Usage> used = usageOf(m, best.x);
  double unused = 0;
  for (size_t t = 0; t < used.size(); ++t)
    unused += prices[t] * static_cast<double>(m.capacity[t] - used[t]);
  return unused / std::max(1.0, static_cast<double>(best.total) - bound);
}

void Stage::round(double target, Cost known, unsigned threads,
                  const std::function<bool()> &stop) {
  prices = tree.isUsable() ? tree.getPrices() : climber.getBest().getPrices();
  guess = climber.getGuess();
  bound = climber.getBound();
  relaxed = climber.getBest();
  valueBounds = relaxed->valueBounds();
  proposals.clear();
  proposals.insert(proposals.end(), ended.begin(), ended.end());
  for (const auto &w : walkers)
    if (w->left > 0)
      proposals.push_back(w->current.x);
  forExact.reset();
  if (exactIsDue())
    forExact =
        tree.isUsable() ? Dual::Reduced{} : climber.getBest().reducedCosts();
  // While the bound still rises fast, better prices are worth more than a
  // search at bad ones. Then only one walker works, which starts from the
  // guesses.
  double gap = std::abs(target - bound);
  bool rising = bound - lastBound > 5e-3 * std::min(gap, std::abs(bound));
  lastBound = bound;
  // If the gap is large, a bound that stands still is only shortening its
  // steps.
  roundsAtRest = rising ? 0 : roundsAtRest + 1;
  rising |= gap > std::abs(bound) && roundsAtRest < 4;
  bool afresh = rising || !best.isFeasible();
  size_t first = rising ? kExploiting : 0;
  size_t end = rising && best.isFeasible() ? kExploiting + 1 : kWalkerCount;
  runParallel(threads, end - first + 2, [&](size_t task) {
    if (task == 0)
      climber.climb(target, rising ? 16 * climbQuota : climbQuota, stop);
    else if (task == 1)
      tryExact(known, stop);
    else
      walk(first + task - 2, afresh, stop);
  });
  join(first, end);
}

double Stage::exactWeight() const {
  return oneLimit ? kOneLimitWeight : kExactWeight;
}

/// Whether the exact search is tried in this round: early, then whenever it has
/// had less than its share of the work.
bool Stage::exactIsDue() const {
  return exactWork + exactBudget * exactWeight() <=
         kExactShare * getWork() + 1e5 * exactWeight();
}

/// Looks for assignments that cost a little more than the bound, then for
/// dearer ones. If there is none up to some cost, that cost is a better bound.
/// If there is one, it is the optimum. Small steps keep the lists short even if
/// the best cost known is far from the bound.
void Stage::tryExact(Cost known, const std::function<bool()> &stop) {
  exact = {};
  if (!forExact)
    return;
  if (tree.isUsable()) {
    tree.climb(tree.getPrices(), static_cast<double>(known), stop);
    prepareTree();
  }
  double from =
      std::max(tree.isUsable() ? tree.getBound() : forExact->bound, proven);
  exactStep = std::max({exactStep / 4, 1e-6 * std::abs(from), 1.0});
  double lastWork = 0;
  for (double left = exactBudget; left > 0;) {
    double reach = std::ceil(from + exactStep);
    Cost below =
        reach < static_cast<double>(known) ? static_cast<Cost>(reach) : known;
    ExactResult r = solveExactly(
        m, *forExact, tree.isUsable() ? &tree : nullptr, below, left, 0, stop);
    exactWork += r.work * exactWeight();
    left -= r.work + 100;
    if (!r.complete)
      break;
    proven = static_cast<double>(below);
    if (r.best || below == known) {
      exact = std::move(r);
      break;
    }
    // As soon as lists begin to grow with the step, they grow fast.
    bool grows = lastWork > 0 && r.work > 1.2 * lastWork;
    lastWork = r.work;
    exactStep *= grows ? 1.5 : oneLimit ? 2 : 4;
  }
  exactBudget *= 2;
}

void Stage::prepareTree() {
  tree.prepare();
  forExact = tree.pricedCosts();
}

void Stage::takeExact() {
  if (!forExact || !exact.complete)
    return;
  finished = true;
  if (exact.best)
    adopt(*exact.best);
}

/// Keeps the last assignment of a life, or of a stalled exploitation, as a
/// proposal.
void Stage::remember(const Candidate &c) {
  if (!c.isFeasible())
    return;
  ended.push_back(c.x);
  if (ended.size() > kMaxEnded)
    ended.pop_front();
}

/// Joins the results of walkers `first` to `end` into `exploited`: applies the
/// changes of the best walker, then those of each other walker if that makes
/// the assignment better.
void Stage::join(size_t first, size_t end) {
  takeExact();
  for (size_t w = std::max(first, kExploiting); w < end; ++w)
    if (walkers[w]->left == 0)
      remember(walkers[w]->current);
  std::vector<size_t> results;
  for (size_t w = first; w < end; ++w)
    if (settingOut || walkers[w]->current.betterThan(exploited))
      results.push_back(w);
  std::ranges::sort(results, [&](size_t a, size_t b) {
    const Candidate &l = walkers[a]->current, &r = walkers[b]->current;
    return l.betterThan(r) || (!r.betterThan(l) && a < b);
  });
  Cost before = settingOut ? kInfiniteCost : exploited.total;
  if (settingOut)
    exploited = walkers[results.front()]->current;
  settingOut = false;
  Labels base = exploited.x;
  for (size_t w : results) {
    const Labels &x = walkers[w]->current.x;
    Candidate next = exploited;
    for (size_t v = 0; v < base.size(); ++v)
      if (x[v] != base[v])
        next.x[v] = x[v];
    score(m, next);
    if (next.betterThan(exploited))
      exploited = std::move(next);
  }
  if (exploited.betterThan(best))
    best = exploited;
  chooseExploited(before);
}

/// Chooses the next assignment to exploit. If `exploited`, of cost `before` at
/// the start of the round, has not become notably better for a while, a new
/// assignment is built; when that stalls too, the best one is exploited again,
/// with the new one as a proposal. If the bound stands still as well, its
/// prices may be too high, and are lowered.
void Stage::chooseExploited(Cost before) {
  double gain =
      static_cast<double>(before) - static_cast<double>(exploited.total);
  double gap = static_cast<double>(exploited.total) - bound;
  // An infeasible assignment may cost less than the bound, and its cost may
  // fall although it does not become better.
  bool better = exploited.isFeasible() && gain > 1e-3 * gap;
  roundsStalled = better ? 0 : roundsStalled + 1;
  if (roundsStalled < kPatience || !best.isFeasible())
    return;
  roundsStalled = 0;
  if (roundsAtRest >= kPatience && unusedShareOfGap() > 0.5)
    climber.lowerPrices();
  anew = !anew;
  if (!anew) {
    remember(std::exchange(exploited, best));
    return;
  }
  settingOut = true;
  ended.clear();
  for (auto &w : walkers)
    w->left = 0;
}

} // namespace heddle::solver
