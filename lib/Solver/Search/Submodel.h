//===- Submodel.h - A model whose other variables are fixed -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H
#define HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// The part of a model that is left when all variables but those of a region
/// keep their labels.
struct Submodel {
  Model m; ///< Variable i is region[i]; its constant leaves the rest out.
  /// Region variable, then label in `m` -> label in the whole model.
  std::vector<std::vector<int32_t>> labelOf;
  std::vector<double> prices; ///< Per time of `m`.
  Cost before = 0;            ///< What `x` costs in `m`.
};

/// Fixes everything outside `region` at `x`. `used` is what `x` uses, which
/// must keep the limit; `prices` belong to the times of `whole`.
Submodel fixOutside(const Model &whole, const std::vector<int32_t> &region,
                    const Labels &x, const std::vector<Usage> &used,
                    const std::vector<double> &prices);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H
