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
  /// `P` must be valid and outlive this object. `OutOfTime` may be asked from
  /// several threads at once.
  PartSolver(const Problem &P, uint64_t Seed, unsigned Threads,
             std::function<bool()> OutOfTime);

  /// Reductions and a first look; then `round` as long as it is not `done`.
  void start();
  void round();

  bool done() const { return Done; } ///< The optimum is known, or that none is.
  const std::optional<Assignment> &best() const { return Best; }
  Cost total() const { return Total; } ///< Of `best`, or `InfiniteCost`.
  Cost bound() const { return LowerBound; }
  double work() const; ///< Table entries visited.

  /// Why there is no assignment, if that is known.
  const std::string &explanation() const { return Explanation; }
  /// What came closest to the limit.
  Assignment closest() const;

private:
  double target() const;
  void openStage(Model M, const DualState &From);
  void takeBest();
  void raiseBound(double Bound);
  void conclude();
  void shrink();

  const Problem &P;
  unsigned Threads;
  std::function<bool()> OutOfTime;
  Random Seeds;
  Presolver Reduced;
  std::unique_ptr<Stage> Now;
  double ClosedWork = 0; ///< Of earlier stages.
  int Rounds = 0;

  std::optional<Assignment> Best;
  Cost Total = InfiniteCost;
  Cost LowerBound = 0;
  Cost StageTotal = InfiniteCost; ///< Of the stage's best, when last seen.
  std::string Explanation;
  bool Done = false;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_PARTSOLVER_H
