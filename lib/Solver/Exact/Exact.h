//===- Exact.h - The cheapest assignment, or a proof of none ----*- C++ -*-===//
//
// Dynamic programming over a tree decomposition, with memory. For every
// assignment of a separator, a list holds the possible costs and usages of the
// variables below it. An entry is dropped if another one is no worse in cost
// and in usage at every open time, that is, every time at which variables
// elsewhere use memory, too (the multi-objective bucket elimination of Rollon
// and Larrosa, J. Heuristics 12, 2006). An entry is also dropped if its reduced
// cost shows that it leads only to assignments as dear as the best known one
// (reduced-cost fixing on partial assignments). This keeps the lists short.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_EXACT_EXACT_H
#define HEDDLE_LIB_SOLVER_EXACT_EXACT_H

#include "Bound/Dual.h"
#include "Bound/TreeBound.h"

#include <functional>
#include <optional>

namespace heddle::solver {

struct ExactResult {
  bool complete = false;      ///< False: the search gave up or cut lists short.
  /// The optimum, if it costs less than `below`. If the search is not complete,
  /// an assignment that need not be optimal, or none.
  std::optional<Labels> best;
  double work = 0;            ///< Entries visited.
};

/// The largest sum of `costs` that an assignment which costs less than `below`
/// can have.
double largestReduced(const Dual::Reduced &costs, Cost below);

/// Searches `m` for the cheapest feasible assignment that costs less than
/// `below`, constant included. `costs` are either the reduced costs of a bound
/// of `m`, or the priced costs of `tree`, which must be prepared. Gives up
/// after `maxWork` entries. If `maxList` is not 0, lists of one dimension that
/// are longer are thinned out; then the result is good, but not complete.
ExactResult solveExactly(const Model &m, const Dual::Reduced &costs,
                         const TreeBound *tree, Cost below, double maxWork,
                         size_t maxList, const std::function<bool()> &stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_EXACT_H
