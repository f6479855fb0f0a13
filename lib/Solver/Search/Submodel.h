//===- Submodel.h - A model whose other variables are fixed -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H
#define HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// The problem that remains of a model if all variables outside of a region
/// keep their labels.
struct Submodel {
  /// Variable i is region[i]. The costs outside of the region are left out.
  Model m;
  /// Region variable, then label in `m` -> label in the whole model.
  std::vector<std::vector<int32_t>> labelOf;
  std::vector<double> prices; ///< Per time of `m`.
  Cost before = 0;            ///< The cost in `m` of the labels in `x`.
};

/// Fixes all variables outside of `region` at their labels in `x`. `used` is
/// the usage of `x`, which must keep the limit; `prices` are by time of
/// `whole`.
Submodel fixOutside(const Model &whole, const std::vector<int32_t> &region,
                    const Labels &x, const std::vector<Usage> &used,
                    const std::vector<double> &prices);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H
