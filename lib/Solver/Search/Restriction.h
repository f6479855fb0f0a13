//===- Restriction.h - Search among few values per variable -----*- C++ -*-===//
//
// With the current value of every variable and a few others, those that its
// bound makes most likely or those of other assignments, tables are so small
// that elimination decides nearly all variables at once: it finds the changes
// that thousands of variables have to make together, as when a whole stack of
// layers goes over to another way of being split. A fusion move of many
// proposals (Lempitsky, Rother, Roth and Blake, "Fusion Moves for Markov Random
// Field Optimization", PAMI 32, 2010).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_RESTRICTION_H
#define HEDDLE_LIB_SOLVER_SEARCH_RESTRICTION_H

#include "Search/Search.h"

namespace heddle::solver {

/// A model of which only some values are left.
struct Restriction {
  Model M;
  std::vector<std::vector<int32_t>> LabelOf; ///< Value in `M` -> in the whole.
};

/// Keeps the values listed by variable, at least one each.
Restriction restrictTo(const Model &Whole,
                       std::vector<std::vector<int32_t>> Keep);

/// For every variable the current value and those of the least `ValueBounds`
/// (Dual.h), `Count` together, with some luck.
std::vector<std::vector<int32_t>>
likelyValues(const Labels &Current,
             const std::vector<std::vector<double>> &ValueBounds, size_t Count,
             Random &R);

/// For every variable the current value and those of the proposals.
std::vector<std::vector<int32_t>>
proposedValues(const Labels &Current, const std::vector<Labels> &Proposals);

/// Improves `C` by a search among the values in `Keep`, of which the first of
/// each variable is its own. Returns the table entries visited, which may
/// exceed `Quota` by some neighbourhoods.
double improveRestricted(const Model &M, Candidate &C,
                         const std::vector<double> &Prices,
                         std::vector<std::vector<int32_t>> Keep, double Quota,
                         Random &R, const std::function<bool()> &Stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_RESTRICTION_H
