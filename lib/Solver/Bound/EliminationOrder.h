//===- EliminationOrder.h - The order of elimination ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_ELIMINATIONORDER_H
#define HEDDLE_LIB_SOLVER_BOUND_ELIMINATIONORDER_H

#include "Reduce/Model.h"
#include "heddle/Support/Random.h"

namespace heddle::solver {

struct EliminationOrder {
  std::vector<int32_t> vars; ///< The eliminated variables, first to last.
  /// By position in `vars`: the variable's neighbours when it is eliminated.
  std::vector<std::vector<int32_t>> separators;
  double total = 0; ///< The entries of all tables.
};

/// Eliminates in each step the variable whose table is smallest (Kjaerulff's
/// minimum weight, 1990). If its table would have more than `maxTable` entries,
/// or all tables together more than `maxTotal`, a variable with many neighbours
/// is left out of the order instead.
EliminationOrder chooseOrder(const Model &m,
                             const std::vector<int32_t> &candidates,
                             double maxTable, double maxTotal, Random &r);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_ELIMINATIONORDER_H
