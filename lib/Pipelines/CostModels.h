//===- CostModels.h - The model of the times of a program -------*- C++ -*-===//

#ifndef HEDDLE_LIB_PIPELINES_COSTMODELS_H
#define HEDDLE_LIB_PIPELINES_COSTMODELS_H

#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Simulate/CostModel.h"

namespace heddle {

/// Returns the model that the options make for a program of phase `executable`,
/// or that of the cluster's roofline if they make none.
inline std::unique_ptr<CostModel> makeCostModel(mlir::ModuleOp module,
                                                const CompileOptions &options,
                                                const Cluster &cluster) {
  if (options.makeCostModel)
    if (std::unique_ptr<CostModel> model = options.makeCostModel(module))
      return model;
  return std::make_unique<RooflineCostModel>(module, cluster);
}

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_COSTMODELS_H
