//===- OrderStages.h - Schedules of stages by their times -------*- C++ -*-===//

#ifndef HEDDLE_LIB_PIPELINES_ORDERSTAGES_H
#define HEDDLE_LIB_PIPELINES_ORDERSTAGES_H

#include "heddle/Pipelines/Pipelines.h"

namespace heddle {

/// Makes the schedule of a pipeline's stages, and keeps it as the module's
/// table (`heddle.stage_table`). The schedule is that of the plan, for the
/// times that the stages' programs take on the cluster. The simulator knows
/// these times once the programs are executable. All passes count as equally
/// long without a cluster, or if the cluster states no rate of a type in which
/// a program computes. If the plan itself has a table, that table stays.
mlir::LogicalResult orderStages(mlir::ModuleOp module,
                                const CompileOptions &options);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_ORDERSTAGES_H
