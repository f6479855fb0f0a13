//===- GradientSums.h - When gradients are summed over devices --*- C++ -*-===//
//
// Where a step has several micro-batches, each adds to variables of role
// gradient. What it adds is a partial sum over the axes that split the batch. A
// sum of partial sums is one, too: so the variable is stored as such, each
// device adds to its own, and what reads the variable (the update) sums over
// the devices, once a step. Where the plan stores the gradients in parts
// (ZeRO-2), each micro-batch scatters its own instead.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARDING_GRADIENTSUMS_H
#define HEDDLE_LIB_SHARDING_GRADIENTSUMS_H

#include "ModuleGraph.h"

namespace heddle {

/// A variable's storage: the axes of its dimensions, and those over which it is
/// a partial sum.
struct VariableStorage {
  DimensionAxes dims;
  Axes partial;
  bool isGiven = false; ///< stated exactly, so that it stays
};
using VariableStorages = llvm::MapVector<mlir::StringAttr, VariableStorage>;

/// Stores the gradients that accumulate as partial sums, where these sums pass
/// through to the store and are read elsewhere. Expects the factors of all ops.
void deferGradientSums(const ModuleGraph &program, MeshRef mesh,
                       VariableStorages &storage);

} // namespace heddle

#endif // HEDDLE_LIB_SHARDING_GRADIENTSUMS_H
