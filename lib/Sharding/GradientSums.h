//===- GradientSums.h - Defers sums of gradients over devices ---*- C++ -*-===//
//
// If a step has several micro-batches, each adds its contribution to variables
// of role gradient or loss. A contribution is a partial sum over the axes that
// split the batch, and a sum of partial sums is a partial sum. So each device
// adds its contribution to its own copy of the variable. The update, which
// reads the variable once a step, sums the copies over the devices. If the plan
// stores a gradient in parts over these axes (ZeRO-2), each micro-batch
// scatters its contribution instead.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARDING_GRADIENTSUMS_H
#define HEDDLE_LIB_SHARDING_GRADIENTSUMS_H

#include "ModuleGraph.h"

namespace heddle {

/// A variable's storage: the axes of its dimensions, and the axes over which it
/// is a partial sum.
struct VariableStorage {
  DimensionAxes dims;
  Axes partial;
  bool isGiven = false; ///< the program fixes it by a sharding
};
using VariableStorages = llvm::MapVector<mlir::StringAttr, VariableStorage>;

/// Stores accumulated gradients as partial sums, if all ops from the partial
/// sum to the store pass partial sums on. Expects the factors of all ops.
void deferGradientSums(const ModuleGraph &program, MeshRef mesh,
                       VariableStorages &storage);

} // namespace heddle

#endif // HEDDLE_LIB_SHARDING_GRADIENTSUMS_H
