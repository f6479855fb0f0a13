//===- Solve.h - The anytime solver -----------------------------*- C++ -*-===//
//
// The solver first reduces the problem (Presolve.h). Then, until one of the
// limits is reached, it alternates on any number of threads between raising a
// lower bound (Dual.h), large-neighbourhood search (Search.h), excluding values
// whose bound exceeds the best cost, and exact search on the remaining values
// (Exact.h). See lib/Solver/RATIONALE.md.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_SOLVE_H
#define HEDDLE_SOLVER_SOLVE_H

#include "heddle/Solver/Problem.h"

#include <atomic>
#include <functional>

namespace heddle::solver {

enum class StopReason {
  Optimal,    ///< The cost is proven to be the least.
  Infeasible, ///< Proven: no assignment keeps the limit at a finite cost.
  Gap,        ///< The gap asked for was reached.
  Timeout,
  WorkLimit,
  Interrupted, ///< `SolveOptions::stop` became true.
};

/// The words for a stop reason on the command line.
const char *nameOf(StopReason why);

/// The state of a search at some moment.
struct Progress {
  double seconds = 0;       ///< Since the start.
  std::optional<Cost> best; ///< None: no feasible assignment yet.
  Cost lowerBound = 0;
  double gap = 0; ///< (best - lowerBound) / best; infinite without best.
};

struct SolveOptions {
  double timeoutSeconds = 60; ///< Wall clock.
  /// Seconds of the timeout that were spent before `solve` is called, such as
  /// for reading the problem. Reported times include them.
  double secondsSpent = 0;
  /// The number of threads; 0: as many as the machine has. Changes the speed
  /// but not the result, unless the search ends by the timeout.
  unsigned threads = 0;
  uint64_t seed = 1;
  double gap = 0; ///< Stop when the relative gap is at most this.
  /// Stop after about this many table entries have been visited; 0: never.
  uint64_t workLimit = 0;
  /// Called from the calling thread on every improvement of cost or bound.
  std::function<void(const Progress &)> onProgress;
  /// The search stops early when this becomes true. It may be set from any
  /// thread and from a signal handler.
  const std::atomic<bool> *stop = nullptr;
};

/// The assignment that came closest to the limit if none is feasible.
struct NearestMiss {
  Assignment strategies;
  int64_t time = 0; ///< The time at which the limit is exceeded most.
  Usage excess = 0; ///< By how much; 0: costs, not memory, are the problem.
  std::vector<uint32_t> nodes; ///< Live then, largest usage first; up to 10.
};

struct Solution {
  StopReason why = StopReason::Timeout;
  std::optional<Assignment> best; ///< None: none found, or none exists.
  Cost total = kInfiniteCost;     ///< The cost of `best`, by `evaluate`.
  /// No feasible assignment costs less; `kInfiniteCost` if there is none.
  Cost lowerBound = 0;
  double gap = 0;                  ///< As in Progress.
  std::string explanation;         ///< Of infeasibility, in words; else empty.
  std::optional<NearestMiss> miss; ///< If `best` is empty.
  uint64_t work = 0;               ///< Table entries visited.
};

/// Solves `p`; fails only if `p` is not valid.
llvm::Expected<Solution> solve(const Problem &p, const SolveOptions &options);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_SOLVE_H
