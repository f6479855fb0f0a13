//===- PartSolver.cpp - The search on one independent part ----------------===//

#include "Search/PartSolver.h"
#include "Search/NearestMiss.h"

#include <algorithm>
#include <cmath>

namespace heddle::solver {

PartSolver::PartSolver(const Problem &p, uint64_t seed, unsigned threads,
                       std::function<bool()> outOfTime)
    : p(p), threads(threads), outOfTime(std::move(outOfTime)), seeds(seed),
      reduced(p) {}

/// The cost that the bound aims at: the best known cost. If none is known,
/// about twice the bound.
double PartSolver::target() const {
  if (best)
    return static_cast<double>(total);
  double bound = now->getAscent().getBound();
  return 2 * std::abs(bound) + 1;
}

void PartSolver::openStage(Model m, const DualState &from) {
  closedWork = getWork();
  now = std::make_unique<Stage>(std::move(m), seeds.next(), from);
  stageTotal = kInfiniteCost;
  if (best)
    if (auto x = reduced.project(*best))
      now->adopt(*x);
  now->begin(target(), total, outOfTime);
  takeBest();
}

/// Takes over the stage's best assignment if it is better and if `evaluate`
/// confirms its cost.
void PartSolver::takeBest() {
  if (!now->isFeasible())
    return;
  Cost found = now->getBest().total;
  if (found >= stageTotal)
    return;
  stageTotal = found;
  Assignment a = reduced.expand(now->getBest().x);
  std::optional<Evaluation> value = llvm::expectedToOptional(evaluate(p, a));
  if (!value || !value->isFeasible() || value->total >= total)
    return;
  best = std::move(a);
  total = value->total;
}

void PartSolver::raiseBound(double bound) {
  if (bound >= static_cast<double>(kInfiniteCost))
    bound = static_cast<double>(kInfiniteCost);
  Cost next = std::min(static_cast<Cost>(std::ceil(bound)), total);
  lowerBound = std::max(lowerBound, next);
}

/// Decides after a round whether anything is left to search.
void PartSolver::conclude() {
  if (now->getModel().vars.empty() || now->isFinished()) {
    lowerBound = total;
    if (!best)
      explanation = "every assignment exceeds the memory limit or has an "
                    "infinite cost";
  }
  done = lowerBound >= total;
  if (done && !best && explanation.empty())
    explanation = "every assignment that keeps the memory limit has an "
                  "infinite cost";
  if (done && best) {
    closedWork = getWork();
    now.reset(); // saves memory: there may be thousands of other parts
  }
}

/// Excludes values that no better assignment uses, if there are enough of them
/// to pay for a new stage.
void PartSolver::shrink() {
  const Dual &d = now->getAscent().getBest();
  double margin = d.getRounding();
  std::vector<std::vector<char>> keep;
  size_t all = 0, gone = 0;
  for (const auto &row : d.valueBounds()) {
    auto &keepRow = keep.emplace_back();
    for (double bound : row) {
      // Values whose bound equals the best cost stay: the best assignment may
      // have them, and the search goes on from it.
      keepRow.push_back(bound - margin <= static_cast<double>(total));
      ++all;
      gone += !keepRow.back();
    }
  }
  if (gone < 4 || gone * 20 < all)
    return;
  ModelNames oldNames = reduced.getNames();
  reduced.restrict(keep);
  if (!reduced.run(outOfTime)) {
    lowerBound = total;
    return conclude();
  }
  Model next = reduced.extract();
  DualState from = carryOver(d.getState(), now->getModel(), oldNames, next,
                             reduced.getNames());
  openStage(std::move(next), from);
  conclude();
}

void PartSolver::start() {
  if (!reduced.run(outOfTime)) {
    explanation = reduced.whyInfeasible();
    lowerBound = kInfiniteCost;
    done = true;
    return;
  }
  openStage(reduced.extract(), {});
  raiseBound(now->getBound());
  conclude();
}

void PartSolver::round() {
  now->round(target(), total, threads, outOfTime);
  takeBest();
  raiseBound(now->getBound());
  conclude();
  if (!done && best && ++rounds % 8 == 0)
    shrink();
}

double PartSolver::getWork() const {
  return closedWork + (now ? now->getWork() : 0);
}

Assignment PartSolver::closest() const {
  return best ? *best : now ? reduced.expand(now->getBest().x) : leastUsage(p);
}

} // namespace heddle::solver
