//===- PartSolver.h - The search on a problem in one piece ------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_PARTSOLVER_H
#define HEDDLE_LIB_SOLVER_SEARCH_PARTSOLVER_H

#include "Reduce/Presolve.h"
#include "Search/Stage.h"

namespace heddle::solver {

/// Reduces a problem, searches in rounds, and starts again on what is left
/// whenever the bound has excluded enough. Whatever it reports holds at any
/// time between two calls.
class PartSolver {
public:
  /// `p` must be valid and outlive this object. `outOfTime` may be asked from
  /// several threads at once.
  PartSolver(const Problem &p, uint64_t seed, unsigned threads,
             std::function<bool()> outOfTime);

  /// Reductions and a first look; then `round` as long as it is not `done`.
  void start();
  void round();

  bool isDone() const {
    return done;
  } ///< The optimum is known, or that none is.
  const std::optional<Assignment> &getBest() const { return best; }
  Cost getTotal() const { return total; } ///< Of `best`, or `kInfiniteCost`.
  Cost getBound() const { return lowerBound; }
  double getWork() const; ///< Table entries visited.

  /// Why there is no assignment, if that is known.
  const std::string &getExplanation() const { return explanation; }
  /// The assignment that came closest to the limit.
  Assignment closest() const;

private:
  double target() const;
  void openStage(Model m, const DualState &from);
  void takeBest();
  void raiseBound(double bound);
  void conclude();
  void shrink();

  const Problem &p;
  unsigned threads;
  std::function<bool()> outOfTime;
  Random seeds;
  Presolver reduced;
  std::unique_ptr<Stage> now;
  double closedWork = 0; ///< The work of earlier stages.
  int rounds = 0;

  std::optional<Assignment> best;
  Cost total = kInfiniteCost;
  Cost lowerBound = 0;
  Cost stageTotal = kInfiniteCost; ///< Of the stage's best, when last seen.
  std::string explanation;
  bool done = false;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_PARTSOLVER_H
