//===- EliminationOrder.h - In which order to eliminate ---------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_ELIMINATIONORDER_H
#define HEDDLE_LIB_SOLVER_BOUND_ELIMINATIONORDER_H

#include "Reduce/Model.h"
#include "heddle/Support/Random.h"

namespace heddle::solver {

struct EliminationOrder {
  std::vector<int32_t> vars; ///< Those that are eliminated, first to last.
  /// For each, its neighbours when it is eliminated.
  std::vector<std::vector<int32_t>> separators;
  double total = 0; ///< Table entries.
};

/// Always the variable whose table is smallest (Kjaerulff's minimum weight,
/// 1990). Where a table would exceed `maxTable` entries, or all together
/// `maxTotal`, a variable that ties many others together is left out of the
/// order instead.
EliminationOrder chooseOrder(const Model &m,
                             const std::vector<int32_t> &candidates,
                             double maxTable, double maxTotal, Random &r);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_ELIMINATIONORDER_H
