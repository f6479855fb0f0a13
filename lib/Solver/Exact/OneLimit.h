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

/// Searches `m`, which has at most one time, for the cheapest feasible
/// assignment that costs less than `below`, constant included. `tree` must be
/// usable and prepared, `costs` its priced ones. Gives up after about `maxWork`
/// entries. Lists longer than `maxList` are thinned out, 0: never; then the
/// result, if there is one, is good but not complete.
ExactResult solveOneLimit(const Model &m, const Dual::Reduced &costs,
                          const TreeBound &tree, Cost below, double maxWork,
                          size_t maxList, const std::function<bool()> &stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_ONELIMIT_H
