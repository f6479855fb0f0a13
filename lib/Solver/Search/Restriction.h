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
  Model m;
  std::vector<std::vector<int32_t>> labelOf; ///< Value in `m` -> in the whole.
};

/// Keeps the values listed by variable, at least one each.
Restriction restrictTo(const Model &whole,
                       std::vector<std::vector<int32_t>> keep);

/// For every variable the current value and those of the least `valueBounds`
/// (Dual.h), `count` together, with some luck.
std::vector<std::vector<int32_t>>
likelyValues(const Labels &current,
             const std::vector<std::vector<double>> &valueBounds, size_t count,
             Random &r);

/// For every variable the current value and those of the proposals.
std::vector<std::vector<int32_t>>
proposedValues(const Labels &current, const std::vector<Labels> &proposals);

/// Improves `c` by a search among the values in `keep`, of which the first of
/// each variable is its own. Returns the table entries visited, which may
/// exceed `quota` by some neighbourhoods.
double improveRestricted(const Model &m, Candidate &c,
                         const std::vector<double> &prices,
                         std::vector<std::vector<int32_t>> keep, double quota,
                         Random &r, const std::function<bool()> &stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_RESTRICTION_H
