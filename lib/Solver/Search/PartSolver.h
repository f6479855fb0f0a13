//===- PartSolver.h - The search on one independent part --------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_PARTSOLVER_H
#define HEDDLE_LIB_SOLVER_SEARCH_PARTSOLVER_H

#include "Reduce/Presolve.h"
#include "Search/Stage.h"

namespace heddle::solver {

/// Reduces a problem and searches in rounds. Whenever the bound has excluded
/// enough values, it reduces the problem again and goes on with a new Stage.
/// Between two calls, all its results are valid.
class PartSolver {
public:
  /// `p` must be valid and outlive this object. Several threads may call
  /// `outOfTime` at once.
  PartSolver(const Problem &p, uint64_t seed, unsigned threads,
             std::function<bool()> outOfTime);

  /// Call `start` first, which reduces the problem and opens the first stage,
  /// then `round` until `isDone`.
  void start();
  void round();

  bool isDone() const {
    return done;
  } ///< The optimum is found, or it is proven that none exists.
  const std::optional<Assignment> &getBest() const { return best; }
  Cost getTotal() const { return total; } ///< The best cost or kInfiniteCost.
  Cost getBound() const { return lowerBound; }
  /// The work of all methods, in the unit of Search::getWork.
  double getWork() const;

  /// Returns the reason why no assignment exists, or an empty string.
  const std::string &getExplanation() const { return explanation; }
  /// Returns the best assignment. If none is known, returns the assignment of
  /// the current stage that exceeds the memory limit least.
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
  /// The cost of the stage's best assignment that `takeBest` saw last.
  Cost stageTotal = kInfiniteCost;
  std::string explanation;
  bool done = false;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_PARTSOLVER_H
