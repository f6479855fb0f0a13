//===- Ties.h - Ops and variables that are planned as one -------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_TIES_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_TIES_H

#include "dialects/Heddle/Heddle.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Sharding/FactorShardings.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace heddle {

/// Equal ops and variables of a program. Numbers are indices into the list of
/// ops, or into the module's variables in textual order.
struct Ties {
  /// Ops at the same place of equal layers.
  llvm::EquivalenceClasses<unsigned> ops;
  /// Variables that these ops access at the same place, and their states.
  llvm::EquivalenceClasses<unsigned> variables;
  /// Elementwise ops that no op of the forward or backward pass depends on: the
  /// update. Ops that share a tensor are united.
  llvm::EquivalenceClasses<unsigned> updates;
  /// By op: whether it belongs to the forward or backward pass.
  std::vector<bool> isOfModel;
};

/// Finds the ties of a program whose ops with factors are `ops`. Without
/// `unitesLayers`, no ops or variables are united. Layers that `plan` treats
/// differently are not united, either.
Ties findTies(mlir::ModuleOp module, llvm::ArrayRef<mlir::Operation *> ops,
              bool unitesLayers, const Plan *plan);

/// Returns whether factor i alone runs over dimension i of every tensor of the
/// op that is no scalar.
bool isAligned(const ShardingRule &rule);

/// Returns the name of the variable that a load or store accesses.
mlir::StringAttr getAccessedVariable(mlir::Operation *access);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_TIES_H
