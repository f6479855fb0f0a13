//===- GradientSums.h - When gradients are summed over devices --*- C++ -*-===//
//
// Where a step has several micro-batches, each adds to variables of role
// gradient or loss. Each contribution is a partial sum over the axes that split the
// batch, and a sum of partial sums is a partial sum. So each device adds its
// contribution to its own copy of the variable. The update, which reads the
// variable once a step, sums the copies over the devices. Where the plan stores
// the gradients in parts (ZeRO-2), each micro-batch scatters its own instead.
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
  bool isGiven = false; ///< by a sharding in the program; it stays
};
using VariableStorages = llvm::MapVector<mlir::StringAttr, VariableStorage>;

/// Stores accumulated gradients as partial sums, if every op from the partial
/// sum to the store works on partial sums. Expects the factors of all ops.
void deferGradientSums(const ModuleGraph &program, MeshRef mesh,
                       VariableStorages &storage);

} // namespace heddle

#endif // HEDDLE_LIB_SHARDING_GRADIENTSUMS_H
