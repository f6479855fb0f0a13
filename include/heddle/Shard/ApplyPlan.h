//===- ApplyPlan.h - Annotates a program with a plan ------------*- C++ -*-===//

#ifndef HEDDLE_SHARD_APPLYPLAN_H
#define HEDDLE_SHARD_APPLYPLAN_H

#include "heddle/PlanVerifier/PlanVerifier.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Runs heddle-apply-plan with a plan in memory. Verifies the plan first. All
/// problems are diagnostics at the plan's lines and columns; if one is an
/// error, the module is not changed.
mlir::LogicalResult applyPlan(mlir::ModuleOp module, const Plan &plan,
                              const PlanSetting &setting = {});

/// Emits an error of parsePlan or readPlanFile as a diagnostic, at its place in
/// the plan's text.
mlir::LogicalResult emitPlanError(mlir::MLIRContext *context,
                                  llvm::Error error);

} // namespace heddle

#endif // HEDDLE_SHARD_APPLYPLAN_H
