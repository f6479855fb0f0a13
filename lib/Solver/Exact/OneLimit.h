//===- OneLimit.h - The optimum where one time binds ------------*- C++ -*-===//
//
// What Exact.h does, for models with a single time (or none) whose tree
// decomposition is narrow: lists are then totally ordered, and the runs of
// equal steps that repeated layers cause are kept as one entry each.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_EXACT_ONELIMIT_H
#define HEDDLE_LIB_SOLVER_EXACT_ONELIMIT_H

#include "Exact/Exact.h"

namespace heddle::solver {

/// Searches `M`, which has at most one time, for the cheapest feasible
/// assignment that costs less than `Below`, constant included. `Tree` must be
/// usable and prepared, `Costs` its priced ones. Gives up after about `MaxWork`
/// entries. Lists longer than `MaxList` are thinned out, 0: never; then the
/// result, if there is one, is good but not complete.
ExactResult solveOneLimit(const Model &M, const Dual::Reduced &Costs,
                          const TreeBound &Tree, Cost Below, double MaxWork,
                          size_t MaxList, const std::function<bool()> &Stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_ONELIMIT_H
