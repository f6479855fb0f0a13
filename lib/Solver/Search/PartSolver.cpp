//===- PartSolver.cpp - The search on a problem in one piece --------------===//

#include "Search/PartSolver.h"
#include "Search/NearestMiss.h"

#include <algorithm>
#include <cmath>

namespace heddle::solver {

PartSolver::PartSolver(const Problem &P, uint64_t Seed, unsigned Threads,
                       std::function<bool()> OutOfTime)
    : P(P), Threads(Threads), OutOfTime(std::move(OutOfTime)), Seeds(Seed),
      Reduced(P) {}

/// What the bound aims at; while no cost is known, a good way above it.
double PartSolver::target() const {
  if (Best)
    return static_cast<double>(Total);
  double Bound = Now->ascent().bound();
  return 2 * std::abs(Bound) + 1;
}

void PartSolver::openStage(Model M, const DualState &From) {
  ClosedWork = work();
  Now = std::make_unique<Stage>(std::move(M), Seeds.next(), From);
  StageTotal = InfiniteCost;
  if (Best)
    if (auto X = Reduced.project(*Best))
      Now->adopt(*X);
  Now->begin(target(), Total, OutOfTime);
  takeBest();
}

/// Only what the independent evaluator confirms counts.
void PartSolver::takeBest() {
  if (!Now->feasible())
    return;
  Cost Found = Now->best().Total;
  if (Found >= StageTotal)
    return;
  StageTotal = Found;
  Assignment A = Reduced.expand(Now->best().X);
  auto Value = evaluate(P, A);
  if (!Value || !Value->feasible() || Value->Total >= Total)
    return;
  Best = std::move(A);
  Total = Value->Total;
}

void PartSolver::raiseBound(double Bound) {
  if (Bound >= static_cast<double>(InfiniteCost))
    Bound = static_cast<double>(InfiniteCost);
  Cost Next = std::min(static_cast<Cost>(std::ceil(Bound)), Total);
  LowerBound = std::max(LowerBound, Next);
}

/// After a look or a round: whether anything is left to search.
void PartSolver::conclude() {
  if (Now->model().Vars.empty() || Now->finished()) {
    LowerBound = Total;
    if (!Best)
      Explanation = "every assignment exceeds the memory limit or has an "
                    "infinite cost";
  }
  Done = LowerBound >= Total;
  if (Done && !Best && Explanation.empty())
    Explanation = "every assignment that keeps the memory limit has an "
                  "infinite cost";
  if (Done && Best) {
    ClosedWork = work();
    Now.reset(); // there may be thousands of other parts
  }
}

/// Excludes values that no better assignment uses, if there are enough of them
/// to pay for a new stage.
void PartSolver::shrink() {
  const Dual &D = Now->ascent().best();
  double Margin = D.rounding();
  std::vector<std::vector<char>> Keep;
  size_t All = 0, Gone = 0;
  for (const auto &Row : D.valueBounds()) {
    auto &KeepRow = Keep.emplace_back();
    for (double Bound : Row) {
      // Those that tie with the best cost stay: the search stands on it.
      KeepRow.push_back(Bound - Margin <= static_cast<double>(Total));
      ++All;
      Gone += !KeepRow.back();
    }
  }
  if (Gone < 4 || Gone * 20 < All)
    return;
  ModelNames OldNames = Reduced.names();
  Reduced.restrict(Keep);
  if (!Reduced.run(OutOfTime)) {
    LowerBound = Total;
    return conclude();
  }
  Model Next = Reduced.extract();
  DualState From =
      carryOver(D.state(), Now->model(), OldNames, Next, Reduced.names());
  openStage(std::move(Next), From);
  conclude();
}

void PartSolver::start() {
  if (!Reduced.run(OutOfTime)) {
    Explanation = Reduced.whyInfeasible();
    LowerBound = InfiniteCost;
    Done = true;
    return;
  }
  openStage(Reduced.extract(), {});
  raiseBound(Now->bound());
  conclude();
}

void PartSolver::round() {
  Now->round(target(), Total, Threads, OutOfTime);
  takeBest();
  raiseBound(Now->bound());
  conclude();
  if (!Done && Best && ++Rounds % 8 == 0)
    shrink();
}

double PartSolver::work() const { return ClosedWork + (Now ? Now->work() : 0); }

Assignment PartSolver::closest() const {
  return Best ? *Best : Now ? Reduced.expand(Now->best().X) : leastUsage(P);
}

} // namespace heddle::solver
