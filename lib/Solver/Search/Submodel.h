//===- Submodel.h - A model whose other variables are fixed -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H
#define HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// The part of a model that is left when all variables but those of a region
/// keep their labels.
struct Submodel {
  Model M; ///< Variable i is region[i]; its constant leaves the rest out.
  /// Region variable, then label in `M` -> label in the whole model.
  std::vector<std::vector<int32_t>> LabelOf;
  std::vector<double> Prices; ///< Per time of `M`.
  Cost Before = 0;            ///< What `X` costs in `M`.
};

/// Fixes everything outside `Region` at `X`. `Used` is what `X` uses, which
/// must keep the limit; `Prices` belong to the times of `Whole`.
Submodel fixOutside(const Model &Whole, const std::vector<int32_t> &Region,
                    const Labels &X, const std::vector<Usage> &Used,
                    const std::vector<double> &Prices);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_SUBMODEL_H
