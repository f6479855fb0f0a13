//===- ApplyPlan.h - Annotates a program with a plan ------------*- C++ -*-===//

#ifndef HEDDLE_SHARD_APPLYPLAN_H
#define HEDDLE_SHARD_APPLYPLAN_H

#include "heddle/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// A variable that the module lacks and other programs of its model have.
struct AbsentVariable {
  std::string name;
  int64_t rank = 0;
  /// Why a plan for this program must not speak of it, for the error; empty if
  /// it may.
  std::string reason;
};

/// What the pass heddle-apply-plan does, for a plan in memory. Errors are
/// diagnostics at the plan's line and column. `devices` is the number of
/// devices that there are, 0 for any. The plan may also speak of the `absent`
/// variables that have no reason.
mlir::LogicalResult applyPlan(mlir::ModuleOp module, const Plan &plan,
                              int64_t devices = 0,
                              llvm::ArrayRef<AbsentVariable> absent = {});

/// Emits what parsePlan or readPlanFile returned as a diagnostic, at the place
/// in the plan's text.
mlir::LogicalResult emitPlanError(mlir::MLIRContext *context,
                                  llvm::Error error);

} // namespace heddle

#endif // HEDDLE_SHARD_APPLYPLAN_H
