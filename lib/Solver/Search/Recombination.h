//===- Recombination.h - The best mixture of assignments --------*- C++ -*-===//
//
// The variables in which assignments differ fall into components that share no
// pair. Each component can be decided on its own; only memory ties the
// decisions together. So the best mixture is a problem of some tens of
// variables, which the exact search solves at once, however many variables
// change together in one decision (partition crossover: Tintos, Whitley and
// Chicano, "Partition Crossover for Pseudo-Boolean Optimization", FOGA 2015;
// here with a limit that couples the components, and with any number of
// parents). Prices cannot find these mixtures: most lie inside the convex hull
// of cost and usage.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H
#define HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H

#include "Search/Search.h"

namespace heddle::solver {

/// Replaces `c`, which must be feasible, by the best assignment that does in
/// every component either as `c` or as one of `others`, if it is found: leaves
/// `c` as it is where there are too many components or ways. `prices` by time
/// of `m` are where the bound of the little problem starts. Returns the table
/// entries visited.
double recombine(const Model &m, Candidate &c,
                 const std::vector<const Labels *> &others,
                 const std::vector<double> &prices,
                 const std::function<bool()> &stop);

/// The same with every one of `others`, then with some of them at once, until
/// `quota` table entries have been visited. Nothing if `c` is not feasible.
double recombineAll(const Model &m, Candidate &c,
                    const std::vector<Labels> &others,
                    const std::vector<double> &prices, double quota, Random &r,
                    const std::function<bool()> &stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H
