//===- ModulePlan.h - The plan that a module follows ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PIPELINES_MODULEPLAN_H
#define HEDDLE_LIB_PIPELINES_MODULEPLAN_H

#include "heddle/Pipelines/Pipelines.h"
#include "heddle/PlanVerifier/PlanVerifier.h"

namespace heddle {

/// Returns the cluster of a choice, null if there is none. Emits an error if it
/// cannot be loaded.
mlir::FailureOr<const Cluster *> getCluster(mlir::ModuleOp module,
                                            const ClusterChoice &choice);

/// Verifies and applies the plan, and keeps its text on the module, for the
/// artifact. `absent` is the training state that the plan may name although the
/// module lacks it.
mlir::LogicalResult usePlan(mlir::ModuleOp module, llvm::Expected<Plan> plan,
                            int64_t devices, const ClusterChoice &choice,
                            llvm::ArrayRef<AbsentVariable> absent = {});

/// Uses the plan of the options, or the standard one for their mesh.
mlir::LogicalResult choosePlan(mlir::ModuleOp module,
                               const CompileOptions &options);

/// Returns the plan that the module keeps, or an empty one.
mlir::FailureOr<Plan> getPlan(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_MODULEPLAN_H
