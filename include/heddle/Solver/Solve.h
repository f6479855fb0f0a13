//===- Solve.h - The anytime solver -----------------------------*- C++ -*-===//
//
// Reduces the problem (Presolve.h), then alternates, on any number of
// threads, between raising a lower bound (Dual.h), large-neighbourhood search
// (Search.h), excluding values whose bound exceeds the best cost, and exact
// search on what is left (Exact.h), until one of the limits is reached. See
// lib/Solver/RATIONALE.md.
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
  Interrupted, ///< `SolveOptions::Stop` became true.
};

/// How a stop reason is called on the command line.
const char *nameOf(StopReason Why);

/// What is known at some moment of a search.
struct Progress {
  double Seconds = 0;       ///< Since the start.
  std::optional<Cost> Best; ///< None: no feasible assignment yet.
  Cost LowerBound = 0;
  double Gap = 0; ///< (Best - LowerBound) / Best; infinite without Best.
};

struct SolveOptions {
  double TimeoutSeconds = 60; ///< Wall clock.
  /// What is gone of the timeout before `solve` is called, for reading the
  /// problem, say. All times that are reported count from then.
  double SecondsSpent = 0;
  /// Threads used; 0: as many as the machine has. Changes how fast, never what
  /// is found, unless time is what ends the search.
  unsigned Threads = 0;
  uint64_t Seed = 1;
  double Gap = 0; ///< Stop when the relative gap is at most this.
  /// Stop after about this many table entries have been visited; 0: never.
  uint64_t WorkLimit = 0;
  /// Called from the calling thread on every improvement of cost or bound.
  std::function<void(const Progress &)> OnProgress;
  /// Raise it from anywhere, also from a signal handler, to stop early.
  const std::atomic<bool> *Stop = nullptr;
};

/// The assignment that came closest where none is feasible.
struct NearestMiss {
  Assignment Strategies;
  int64_t Time = 0; ///< Where the limit is exceeded most.
  Usage Excess = 0; ///< By how much there; 0: memory is not the problem.
  std::vector<uint32_t> Nodes; ///< Live then, largest usage first; up to 10.
};

struct Solution {
  StopReason Why = StopReason::Timeout;
  std::optional<Assignment> Best; ///< None: none found, or none exists.
  Cost Total = InfiniteCost;      ///< What `evaluate` says of `Best`.
  /// No feasible assignment costs less; `InfiniteCost` if there is none.
  Cost LowerBound = 0;
  double Gap = 0;                  ///< As in Progress.
  std::string Explanation;         ///< Of infeasibility, in words; else empty.
  std::optional<NearestMiss> Miss; ///< If `Best` is empty.
  uint64_t Work = 0;               ///< Table entries visited.
};

/// Solves `P`; fails only if `P` is not valid.
Expected<Solution> solve(const Problem &P, const SolveOptions &Options);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_SOLVE_H
