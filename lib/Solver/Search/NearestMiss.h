//===- NearestMiss.h - The largest excess of the limit ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_NEARESTMISS_H
#define HEDDLE_LIB_SOLVER_SEARCH_NEARESTMISS_H

#include "heddle/Solver/Solve.h"

namespace heddle::solver {

/// Describes where `a` exceeds the limit of `p` most.
NearestMiss nearestMiss(const Problem &p, Assignment a);

/// Gives every node the strategy of least usage, the cheapest one if several
/// use as little.
Assignment leastUsage(const Problem &p);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_NEARESTMISS_H
