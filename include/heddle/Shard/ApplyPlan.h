//===- ApplyPlan.h - Annotates a program with a plan ------------*- C++ -*-===//

#ifndef HEDDLE_SHARD_APPLYPLAN_H
#define HEDDLE_SHARD_APPLYPLAN_H

#include "heddle/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// A variable that other programs of the module's model have, but not this
/// module.
struct AbsentVariable {
  std::string name;
  int64_t rank = 0;
  /// The reason why a plan for this program must not name the variable, for the
  /// error message. Empty if the plan may name it.
  std::string reason;
};

/// Runs heddle-apply-plan with a plan in memory. Errors are diagnostics at the
/// plan's line and column. `devices` is the number of available devices; 0
/// skips the check. The plan may also name the variables of `absent` that have
/// no reason.
mlir::LogicalResult applyPlan(mlir::ModuleOp module, const Plan &plan,
                              int64_t devices = 0,
                              llvm::ArrayRef<AbsentVariable> absent = {});

/// Emits an error of parsePlan or readPlanFile as a diagnostic, at its place in
/// the plan's text.
mlir::LogicalResult emitPlanError(mlir::MLIRContext *context,
                                  llvm::Error error);

} // namespace heddle

#endif // HEDDLE_SHARD_APPLYPLAN_H
