//===- GatherLaunches.h - Brings equal launches together --------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H
#define HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Moves calls of the same kernel to the first of them, with the loads and
/// views that they read, as far as their operands are known there, and marks
/// them as batches. Values that live longer then take at most a quarter of the
/// bytes that the program loads from variables.
void gatherLaunches(mlir::func::FuncOp program);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H
