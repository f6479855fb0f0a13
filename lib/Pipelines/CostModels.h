//===- CostModels.h - The cost model that options choose --------*- C++ -*-===//

#ifndef HEDDLE_LIB_PIPELINES_COSTMODELS_H
#define HEDDLE_LIB_PIPELINES_COSTMODELS_H

#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Simulate/CostModel.h"

namespace heddle {

/// Returns the cost model that `options.makeCostModel` makes for a program in
/// phase `executable`. Without that function, or if it returns null, returns
/// the roofline model of the cluster.
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
