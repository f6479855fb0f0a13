//===- CompletePlan.h - Plans of which the user states a part ---*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H
#define HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H

#include "heddle/Planner/Planner.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Adds what the user states to a plan for `module`. Stated entries stay as
/// they are: they replace those of the plan for the same operators, factors and
/// variables, and take their axes from other factors. An entry whose glob
/// matches nothing is left out, as the module may have few layers; so is an
/// axis that the plan's mesh lacks, because it has one device there.
void completePlan(Plan &plan, const Plan &stated, mlir::ModuleOp module);

/// Verifies the stated part against a program with all layers. The error lists
/// all problems.
llvm::Error verifyStated(const Plan &stated, mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H
