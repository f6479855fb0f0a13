//===- Problem.h - Choose one strategy per node -----------------*- C++ -*-===//
//
// The problem of the ASPLOS 2025 / EuroSys 2025 contest on intra-operator
// parallelism (IOPDDL). Every node takes one of its strategies. A strategy has
// a cost, uses memory while its node is live, and has further costs in
// combination with the strategies of neighbouring nodes. The sum of costs is
// minimized while memory stays within a limit at every time.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_PROBLEM_H
#define HEDDLE_SOLVER_PROBLEM_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::solver {

/// A cost, in whatever unit the problem was written in; never negative.
using Cost = int64_t;
/// An amount of memory, in whatever unit the problem was written in; never
/// negative.
using Usage = int64_t;

/// A strategy or combination with a cost of this much or more is forbidden, and
/// so is an assignment with such a sum. Sums saturate here and never overflow.
inline constexpr Cost kInfiniteCost = 1'000'000'000'000'000'000;

/// `a + b`, saturating at `kInfiniteCost`. Both must lie in
/// [0, kInfiniteCost].
inline Cost addCosts(Cost a, Cost b) {
  return a + b < kInfiniteCost ? a + b : kInfiniteCost;
}

/// The times `begin <= t < end`; empty if they are equal.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  bool empty() const { return begin == end; }
  bool operator==(const Interval &) const = default;
};

struct Node {
  Interval live;             ///< When the node uses memory.
  std::vector<Cost> costs;   ///< Per strategy; at least one.
  std::vector<Usage> usages; ///< Per strategy, at every time in `live`.
};

/// A cost that depends on the strategies of one or more nodes together.
/// Several edges may name the same nodes: their costs add up.
struct Edge {
  std::vector<uint32_t> nodes;
  /// Row-major over the strategies of `nodes`, the last one fastest.
  std::vector<Cost> costs;
};

struct Problem {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::optional<Usage> usageLimit; ///< None: memory does not matter.
};

/// The strategy of every node, by node.
using Assignment = std::vector<int32_t>;

/// Checks that `p` keeps the contract above: sizes agree, intervals are not
/// negative, nodes exist, nothing is negative, memory sums fit 64 bits.
/// Returns the first violation, with the name of the field as in JSON.
llvm::Error validate(const Problem &p);

/// The cost and usage of an assignment.
struct Evaluation {
  Cost total = 0;       ///< Saturated at `kInfiniteCost`.
  Usage peakUsage = 0;  ///< The largest sum of usages at any time.
  int64_t peakTime = 0; ///< The first time at which the peak occurs.
  bool withinLimit = true;
  bool isFeasible() const { return withinLimit && total < kInfiniteCost; }
};

/// Evaluates `a` from the definition alone; shares no code with any solver.
/// `p` must be valid. Fails if `a` has the wrong length or names a strategy
/// that does not exist.
llvm::Expected<Evaluation> evaluate(const Problem &p, const Assignment &a);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_PROBLEM_H
