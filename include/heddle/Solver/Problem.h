//===- Problem.h - Choose one strategy per node -----------------*- C++ -*-===//
//
// The problem of the ASPLOS 2025 / EuroSys 2025 contest on intra-operator
// parallelism (IOPDDL): every node takes one of its strategies; a strategy
// costs something, uses memory while its node is live, and costs more in
// combination with the strategies of neighbouring nodes. Minimize the sum of
// costs while memory stays within a limit at every time.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_PROBLEM_H
#define HEDDLE_SOLVER_PROBLEM_H

#include "heddle/Solver/Expected.h"

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

/// A cost of this much or more forbids what it is attached to, and so does a
/// sum that reaches it. Sums saturate here and hence never overflow.
inline constexpr Cost InfiniteCost = 1'000'000'000'000'000'000;

/// `A + B`, saturating at `InfiniteCost`. Both must lie in
/// [0, InfiniteCost].
inline Cost addCosts(Cost A, Cost B) {
  return A + B < InfiniteCost ? A + B : InfiniteCost;
}

/// The times `Begin <= t < End`; empty if they are equal.
struct Interval {
  int64_t Begin = 0;
  int64_t End = 0;
  bool empty() const { return Begin == End; }
  bool operator==(const Interval &) const = default;
};

struct Node {
  Interval Live;             ///< When the node uses memory.
  std::vector<Cost> Costs;   ///< Per strategy; at least one.
  std::vector<Usage> Usages; ///< Per strategy, at every time in `Live`.
};

/// A cost that depends on the strategies of one or more nodes together.
/// Several edges may name the same nodes: their costs add up.
struct Edge {
  std::vector<uint32_t> Nodes;
  /// Row-major over the strategies of `Nodes`, the last one fastest.
  std::vector<Cost> Costs;
};

struct Problem {
  std::string Name;
  std::vector<Node> Nodes;
  std::vector<Edge> Edges;
  std::optional<Usage> UsageLimit; ///< None: memory does not matter.
};

/// The strategy of every node, by node.
using Assignment = std::vector<int32_t>;

/// Checks that `P` keeps the contract above: sizes agree, intervals are not
/// negative, nodes exist, nothing is negative, memory sums fit 64 bits.
/// Returns the first violation, with the name of the field as in JSON.
std::optional<Error> validate(const Problem &P);

/// What an assignment costs and uses.
struct Evaluation {
  Cost Total = 0;       ///< Saturated at `InfiniteCost`.
  Usage PeakUsage = 0;  ///< The largest sum of usages at any time.
  int64_t PeakTime = 0; ///< The first time at which the peak occurs.
  bool WithinLimit = true;
  bool feasible() const { return WithinLimit && Total < InfiniteCost; }
};

/// Evaluates `A` from the definition alone; shares no code with any solver.
/// `P` must be valid. Fails if `A` has the wrong length or names a strategy
/// that does not exist.
Expected<Evaluation> evaluate(const Problem &P, const Assignment &A);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_PROBLEM_H
