//===- Recombination.h - The best mixture of assignments --------*- C++ -*-===//
//
// The variables in which assignments differ fall into components that share no
// pair. A mixture takes each component from one of the assignments. Only memory
// ties these choices together. So the best mixture is a problem of some tens of
// variables, one for each component, which the exact search solves quickly,
// however many variables a component has. This is partition crossover (Tintos,
// Whitley and Chicano, "Partition Crossover for Pseudo-Boolean Optimization",
// FOGA 2015) with a limit that couples the components, and with any number of
// parents. Prices cannot find these mixtures: most lie inside the convex hull
// of cost and usage.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H
#define HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H

#include "Search/Search.h"

namespace heddle::solver {

/// Replaces `c`, which must be feasible, by the best mixture of `c` and
/// `others`. Leaves `c` as it is if no better mixture is found, or if there are
/// too many components or too many ways to decide them. The bound of the little
/// problem starts from `prices`, by time of `m`. Returns the table entries
/// visited.
double recombine(const Model &m, Candidate &c,
                 const std::vector<const Labels *> &others,
                 const std::vector<double> &prices,
                 const std::function<bool()> &stop);

/// Mixes `c` with every one of `others` alone, then with several of them at
/// once, until `quota` table entries have been visited. Does nothing if `c` is
/// not feasible.
double recombineAll(const Model &m, Candidate &c,
                    const std::vector<Labels> &others,
                    const std::vector<double> &prices, double quota, Random &r,
                    const std::function<bool()> &stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H
