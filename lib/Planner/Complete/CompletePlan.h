//===- CompletePlan.h - Plans of which the user states a part ---*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H
#define HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H

#include "heddle/Planner/Planner.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Adds what the user states to a plan for `module`, of which `pins` hold
/// already. Of stated entries and pins, the most specific one decides, and no
/// entry of the plan wins over them. Each operator's stated factors take their
/// axes from its others. An entry whose glob matches nothing is left out, as
/// the module may have few layers; so is an axis that the plan's mesh lacks,
/// because it has one device there.
void completePlan(Plan &plan, const Plan &stated, const PlanPins &pins,
                  mlir::ModuleOp module);

/// Verifies that each pinned glob matches an operator of a program with all
/// layers.
llvm::Error verifyPins(const PlanPins &pins, mlir::ModuleOp module);

/// Verifies the stated part against a program with all layers. The error lists
/// all problems.
llvm::Error verifyStated(const Plan &stated, mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H
