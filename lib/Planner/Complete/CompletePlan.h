//===- CompletePlan.h - Plans of which the user states a part ---*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H
#define HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H

#include "heddle/Planner/Planner.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Merges the user's stated part and the entries of pins into a plan for
/// `module`, which may have been completed before. Among stated entries and
/// pins, the most specific one decides. No entry of the plan wins over them.
/// The stated factors of an operator take their axes from its other factors. An
/// entry whose glob matches nothing is left out, because the module may have
/// few layers. An axis that the plan's mesh lacks is left out, too, because it
/// would have one device.
void completePlan(Plan &plan, const Plan &stated,
                  std::vector<FactorEntry> pinned, mlir::ModuleOp module);

/// Verifies that each pinned glob matches an operator. `module` is a program
/// with all layers.
llvm::Error verifyPins(const PlanPins &pins, mlir::ModuleOp module);

/// Verifies the stated part against a program with all layers. The error lists
/// all problems. A part that splits the operators of a glob that `pins` keeps
/// replicated is an error, too.
llvm::Error verifyStated(const Plan &stated, const PlanPins &pins,
                         mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_COMPLETE_COMPLETEPLAN_H
