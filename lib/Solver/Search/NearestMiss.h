//===- NearestMiss.h - Where and why nothing fits ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_NEARESTMISS_H
#define HEDDLE_LIB_SOLVER_SEARCH_NEARESTMISS_H

#include "heddle/Solver/Solve.h"

namespace heddle::solver {

/// Describes where `a` exceeds the limit of `p` most.
NearestMiss nearestMiss(const Problem &p, Assignment a);

/// Every node at its least usage, the cheapest such strategy.
Assignment leastUsage(const Problem &p);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_NEARESTMISS_H
