//===- GatherLaunches.h - Brings equal launches together --------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H
#define HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Moves independent calls of kernels together and marks them as batches.
///
/// 1. Calls of one kernel move to the first of them, with the loads and views
///    that they read, if their operands are known there; else to the last one,
///    if nothing in between reads their results. Results that live longer take
///    at most a quarter of the bytes that the program loads from variables, and
///    operands that are kept for later at most 1/16.
/// 2. Calls of different kernels, at most a layer apart, move to the first of
///    them if their operands are known there.
void gatherLaunches(mlir::func::FuncOp program);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H
