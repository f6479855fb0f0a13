//===- Solve.cpp - The anytime solver -------------------------------------===//

#include "heddle/Plan/Solver/Solve.h"
#include "NearestMiss.h"
#include "Presolve.h"
#include "Stage.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

namespace heddle::solver {

const char *nameOf(StopReason Why) {
  switch (Why) {
  case StopReason::Optimal:
    return "optimal";
  case StopReason::Infeasible:
    return "infeasible";
  case StopReason::Gap:
    return "gap reached";
  case StopReason::Timeout:
    return "timeout";
  case StopReason::WorkLimit:
    return "work limit";
  case StopReason::Interrupted:
    return "interrupted";
  }
  return "unknown";
}

namespace {

using Clock = std::chrono::steady_clock;

class Solver {
public:
  Solver(const Problem &P, const SolveOptions &O)
      : P(P), O(O), Start(Clock::now()), Reduced(P),
        Threads(O.Threads ? O.Threads
                          : std::max(1u, std::thread::hardware_concurrency())),
        Seeds(O.Seed) {}

  Solution run();

private:
  double seconds() const {
    return O.SecondsSpent +
           std::chrono::duration<double>(Clock::now() - Start).count();
  }
  bool interrupted() const { return O.Stop && *O.Stop; }
  bool outOfTime() const {
    return interrupted() || seconds() >= O.TimeoutSeconds;
  }
  /// What the bound aims at; while no cost is known, a good way above it.
  double target() const;
  void openStage(Model M, const DualState &From);
  void takeBest();
  void raiseBound(double Bound);
  void report();
  std::optional<StopReason> reasonToStop() const;
  bool shrink();
  Solution finish(StopReason Why);

  const Problem &P;
  const SolveOptions &O;
  Clock::time_point Start;
  Presolver Reduced;
  unsigned Threads;
  Random Seeds;
  std::unique_ptr<Stage> Now;
  double ClosedWork = 0; ///< Of earlier stages.

  std::optional<Assignment> Best;
  Cost Total = InfiniteCost;
  Cost LowerBound = 0;
  Cost StageTotal = InfiniteCost; ///< Of the stage's best, when last seen.
  std::string Explanation;
};

double Solver::target() const {
  if (Best)
    return static_cast<double>(Total);
  double Bound = Now->ascent().bound();
  return 2 * std::abs(Bound) + 1;
}

void Solver::openStage(Model M, const DualState &From) {
  if (Now)
    ClosedWork += Now->work();
  Now = std::make_unique<Stage>(std::move(M), Seeds.next(), From);
  StageTotal = InfiniteCost;
  if (Best)
    if (auto X = Reduced.project(*Best))
      Now->adopt(*X);
  Now->begin(target(), Total, [this] { return outOfTime(); });
  takeBest();
}

/// Only what the independent evaluator confirms counts.
void Solver::takeBest() {
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
  report();
}

void Solver::raiseBound(double Bound) {
  if (Bound >= static_cast<double>(InfiniteCost))
    Bound = static_cast<double>(InfiniteCost);
  Cost Next = std::min(static_cast<Cost>(std::ceil(Bound)), Total);
  if (Next <= LowerBound)
    return;
  LowerBound = Next;
  report();
}

double gapOf(const std::optional<Assignment> &Best, Cost Total, Cost Bound) {
  if (!Best)
    return std::numeric_limits<double>::infinity();
  return Total == 0
             ? 0
             : static_cast<double>(Total - Bound) / static_cast<double>(Total);
}

void Solver::report() {
  if (!O.OnProgress)
    return;
  Progress Now{seconds(), std::nullopt, LowerBound,
               gapOf(Best, Total, LowerBound)};
  if (Best)
    Now.Best = Total;
  O.OnProgress(Now);
}

std::optional<StopReason> Solver::reasonToStop() const {
  if (Best && LowerBound >= Total)
    return StopReason::Optimal;
  if (Best && gapOf(Best, Total, LowerBound) <= O.Gap)
    return StopReason::Gap;
  if (interrupted())
    return StopReason::Interrupted;
  if (seconds() >= O.TimeoutSeconds)
    return StopReason::Timeout;
  if (O.WorkLimit &&
      ClosedWork + Now->work() >= static_cast<double>(O.WorkLimit))
    return StopReason::WorkLimit;
  return std::nullopt;
}

/// Excludes values that no better assignment uses, if there are enough of them
/// to pay for a new stage.
bool Solver::shrink() {
  if (!Best)
    return false;
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
    return false;
  ModelNames OldNames = Reduced.names();
  Reduced.restrict(Keep);
  if (!Reduced.run([this] { return outOfTime(); })) {
    LowerBound = Total;
    return true;
  }
  Model Next = Reduced.extract();
  DualState From =
      carryOver(D.state(), Now->model(), OldNames, Next, Reduced.names());
  openStage(std::move(Next), From);
  return true;
}

Solution Solver::finish(StopReason Why) {
  Solution S;
  S.Why = Why;
  S.Best = Best;
  S.Total = Total;
  S.LowerBound = LowerBound;
  S.Gap = gapOf(Best, Total, LowerBound);
  S.Work = static_cast<uint64_t>(ClosedWork + (Now ? Now->work() : 0));
  if (Best)
    return S;
  S.Explanation = Explanation;
  if (Now)
    S.Miss = nearestMiss(P, Reduced.expand(Now->best().X));
  else
    S.Miss = nearestMiss(P, leastUsage(P));
  return S;
}

Solution Solver::run() {
  if (!Reduced.run([this] { return outOfTime(); })) {
    Explanation = Reduced.whyInfeasible();
    LowerBound = InfiniteCost;
    return finish(StopReason::Infeasible);
  }
  openStage(Reduced.extract(), {});
  raiseBound(Now->bound());
  for (int Round = 1;; ++Round) {
    if (Now->model().Vars.empty() || Now->finished()) {
      LowerBound = Total;
      if (!Best) {
        Explanation = "every assignment exceeds the memory limit or has an "
                      "infinite cost";
        return finish(StopReason::Infeasible);
      }
    }
    if (auto Why = reasonToStop())
      return finish(*Why);
    Now->round(target(), Total, Threads, [this] { return outOfTime(); });
    takeBest();
    raiseBound(Now->bound());
    if (Round % 8 == 0)
      shrink();
  }
}

} // namespace

Expected<Solution> solve(const Problem &P, const SolveOptions &Options) {
  if (auto Violation = validate(P))
    return *Violation;
  Solver S(P, Options);
  return S.run();
}

} // namespace heddle::solver
