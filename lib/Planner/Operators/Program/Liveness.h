//===- Liveness.h - Values in memory, kernels and the peak ------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_LIVENESS_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_LIVENESS_H

#include "Program.h"

namespace heddle {

/// Returns whether an op may be part of a kernel with its neighbours: all its
/// factors are parallel.
bool isFusableOp(mlir::Operation *op, const ShardingRule &rule);

/// Finds the values that the ops of a class read from and write to memory, and
/// whether the ops begin a kernel. Fusable ops that stand near each other are
/// one kernel, so values between them stay out of memory. `isFusable` returns
/// whether an op is of a fusable class, `indexOf` returns its position in the
/// program.
void findKernelBorders(
    OpClass &made, llvm::function_ref<bool(mlir::Operation *)> isFusable,
    const llvm::DenseMap<mlir::Operation *, unsigned> &indexOf);

struct LiveResult {
  mlir::Operation *op;
  unsigned result;
  int64_t count;
};

/// Returns the results of ops that are live at the peak of the unsharded
/// program's memory. `ops` are those of all functions, in order. The result of
/// a view (an op without work) shares the memory of its operand.
std::vector<LiveResult>
findLiveAtPeak(llvm::ArrayRef<mlir::Operation *> ops,
               llvm::function_ref<bool(mlir::Operation *)> isFusable);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_LIVENESS_H
