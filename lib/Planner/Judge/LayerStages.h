//===- LayerStages.h - Stages of a pipeline by layers -----------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_LAYERSTAGES_H
#define HEDDLE_LIB_PLANNER_JUDGE_LAYERSTAGES_H

#include "heddle/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace heddle {

/// Returns the globs of the operators of each layer, first to last: "h.0.*",
/// "h.1.*". The layers are the numbers behind the prefix ("h.") that has most
/// operators. The error says that no operator's name has a number.
llvm::Expected<std::vector<std::string>> findLayers(mlir::ModuleOp module);

/// States the stages of a plan: stage i has counts[i] layers. Operators before
/// the first layer join stage 0, those behind the last layer the last stage.
/// The counts add up to the number of layers.
void setStages(Plan &plan, llvm::ArrayRef<std::string> layers,
               llvm::ArrayRef<int64_t> counts);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_LAYERSTAGES_H
