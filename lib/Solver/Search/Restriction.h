//===- Restriction.h - Search among few values per variable -----*- C++ -*-===//
//
// Every variable may keep its current value or take one of a few others: those
// that the bound makes most likely, or those of other assignments (proposals).
// Then tables are so small that elimination decides nearly all variables at
// once. So it finds changes that thousands of variables must make together,
// such as another sharding of a whole stack of layers. This is a fusion move of
// many proposals (Lempitsky, Rother, Roth and Blake, "Fusion Moves for Markov
// Random Field Optimization", PAMI 32, 2010).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_RESTRICTION_H
#define HEDDLE_LIB_SOLVER_SEARCH_RESTRICTION_H

#include "Search/Search.h"

namespace heddle::solver {

/// A model with only some of the values of another one, the whole model.
struct Restriction {
  Model m;
  std::vector<std::vector<int32_t>> labelOf; ///< Value in `m` -> in the whole.
};

/// Keeps the values in `keep`, listed by variable, at least one for each.
Restriction restrictTo(const Model &whole,
                       std::vector<std::vector<int32_t>> keep);

/// Lists for every variable the current value, then others with the least
/// `valueBounds` (Dual.h), slightly randomized. At most `count` values each.
std::vector<std::vector<int32_t>>
likelyValues(const Labels &current,
             const std::vector<std::vector<double>> &valueBounds, size_t count,
             Random &r);

/// Lists for every variable the current value, then those of the proposals.
std::vector<std::vector<int32_t>>
proposedValues(const Labels &current, const std::vector<Labels> &proposals);

/// Improves `c` by a search among the values in `keep`, which lists the value
/// of `c` first for each variable. Returns the table entries visited, which may
/// exceed `quota` by some neighbourhoods.
double improveRestricted(const Model &m, Candidate &c,
                         const std::vector<double> &prices,
                         std::vector<std::vector<int32_t>> keep, double quota,
                         Random &r, const std::function<bool()> &stop);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_RESTRICTION_H
