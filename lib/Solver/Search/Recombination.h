//===- Recombination.h - The best mixture of assignments --------*- C++ -*-===//
//
// Where assignments differ falls into components that share no pair: each can
// be decided on its own, and only memory ties the decisions together. What the
// best mixture is, is therefore a problem of some tens of variables that the
// exact search solves at once, however many variables change together in one
// decision (partition crossover: Tintos, Whitley and Chicano, "Partition
// Crossover for Pseudo-Boolean Optimization", FOGA 2015; here with a limit that
// couples the components, and with any number of parents). Prices cannot find
// these mixtures: most lie inside the convex hull of cost and usage.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H
#define HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H

#include "Search/Search.h"

namespace heddle::solver {

/// Replaces `C`, which must be feasible, by the best assignment that does in
/// every component either as `C` or as one of `Others`, if it is found: leaves
/// `C` as it is where there are too many components or ways. `Prices` by time
/// of `M` are where the bound of the little problem starts. Returns the table
/// entries visited.
double recombine(const Model &M, Candidate &C,
                 const std::vector<const Labels *> &Others,
                 const std::vector<double> &Prices,
                 const std::function<bool()> &Stop);

/// The same with every one of `Others`, then with some of them at once, until
/// `Quota` table entries have been visited. Nothing if `C` is not feasible.
double recombineAll(const Model &M, Candidate &C,
                    const std::vector<Labels> &Others,
                    const std::vector<double> &Prices, double Quota, Random &R,
                    const std::function<bool()> &Stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_RECOMBINATION_H
