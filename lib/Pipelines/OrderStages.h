//===- OrderStages.h - Schedules of stages by their times -------*- C++ -*-===//

#ifndef HEDDLE_LIB_PIPELINES_ORDERSTAGES_H
#define HEDDLE_LIB_PIPELINES_ORDERSTAGES_H

#include "heddle/Pipelines/Pipelines.h"

namespace heddle {

/// Orders the work of a pipeline's stages by the times that their programs take
/// on the cluster, which the simulator knows once the programs are executable:
/// makes the schedule of the plan for these times and keeps it as the module's
/// table (`heddle.stage_table`). All passes count as equally long without a
/// cluster, or if it states no rate of a type in which a program computes. A
/// table of the plan stays.
mlir::LogicalResult orderStages(mlir::ModuleOp module,
                                const CompileOptions &options);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_ORDERSTAGES_H
