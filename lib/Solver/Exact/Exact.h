//===- Exact.h - The cheapest assignment, or a proof of none ----*- C++ -*-===//
//
// Dynamic programming over a tree decomposition with memory: for every
// assignment of a separator, the list of what the variables below it can cost
// and use, without those that another entry beats in cost and in usage at
// every time that is still open (the multi-objective bucket elimination of
// Rollon and Larrosa, J. Heuristics 12, 2006). An entry whose reduced cost
// shows that it can only lead to assignments as dear as the best known one
// goes as well (reduced-cost fixing on partial assignments); that is what
// keeps the lists short.
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
  bool complete = false;      ///< False: gave up.
  std::optional<Labels> best; ///< The optimum, if it costs less than `below`.
  double work = 0;            ///< Entries visited.
};

/// The largest sum of `costs` of an assignment that costs less than `below`.
double largestReduced(const Dual::Reduced &costs, Cost below);

/// Searches `m` for the cheapest feasible assignment that costs less than
/// `below`, constant included. `costs` are either the reduced costs of a bound
/// of `m`, or the priced ones of `tree`, which must be prepared. Gives up after
/// `maxWork` entries. Where `m` has a single time and `tree` is given, lists
/// longer than `maxList` are thinned out, 0: never; then the result, if there
/// is one, is good but not complete.
ExactResult solveExactly(const Model &m, const Dual::Reduced &costs,
                         const TreeBound *tree, Cost below, double maxWork,
                         size_t maxList, const std::function<bool()> &stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_EXACT_H
