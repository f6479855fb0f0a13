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
  bool Complete = false;      ///< False: gave up.
  std::optional<Labels> Best; ///< The optimum, if it costs less than `Below`.
  double Work = 0;            ///< Entries visited.
};

/// What an assignment that costs less than `Below` can have at most as its sum
/// of `Costs`.
double largestReduced(const Dual::Reduced &Costs, Cost Below);

/// Searches `M` for the cheapest feasible assignment that costs less than
/// `Below`, constant included. `Costs` are either the reduced costs of a bound
/// of `M`, or the priced ones of `Tree`, which must be prepared. Gives up after
/// `MaxWork` entries.
ExactResult solveExactly(const Model &M, const Dual::Reduced &Costs,
                         const TreeBound *Tree, Cost Below, double MaxWork,
                         const std::function<bool()> &Stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_EXACT_H
