//===- Grid.h - Many devices' programs in lockstep --------------*- C++ -*-===//
//
// Executes one device's program (after heddle-localize) on all devices of its
// mesh, op by op: each device evaluates an op on its own values, and a
// collective reads the values of all its members. The idea comes from
// StableHLO's process grid.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_GRID_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_GRID_H

#include "Interpreter.h"
#include "dialects/Heddle/Heddle.h"
#include "llvm/Support/Error.h"

namespace heddle {

/// Runs the function on all devices of `mesh`. The outer index of `arguments`,
/// `variables` and the results is the device, in row-major order of the mesh's
/// coordinates.
mlir::FailureOr<std::vector<std::vector<Tensor>>>
interpretGrid(mlir::func::FuncOp function, MeshAttr mesh,
              llvm::ArrayRef<std::vector<Tensor>> arguments,
              llvm::MutableArrayRef<Variables> variables,
              const InterpreterOptions &options = {});

/// Cuts a tensor into the devices' parts. Elements of a part that lie beyond
/// the tensor's end get the value `padding`. If the sharding is partial, the
/// first device of each group of summands holds the values and the others hold
/// zeros.
std::vector<Tensor> shardTensor(const Tensor &tensor, ShardingAttr sharding,
                                MeshAttr mesh, double padding = 0);

/// Assembles the tensor of the given shape from the devices' parts. Fails if
/// devices that should hold the same values differ by more than `tolerance`
/// (relative to the largest), or if the sharding is a partial maximum.
llvm::Expected<Tensor> unshardTensor(llvm::ArrayRef<Tensor> parts,
                                     ShardingAttr sharding, MeshAttr mesh,
                                     llvm::ArrayRef<int64_t> shape,
                                     double tolerance = 0);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_GRID_H
