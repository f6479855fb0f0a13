//===- GatherLaunches.h - Brings equal launches together --------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H
#define HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Moves independent calls of kernels together and marks them as batches.
///
/// 1. Calls of one kernel move to the first call, with the loads and views that
///    they read, if their operands are computed there. Otherwise they move to
///    the last call, if nothing in between reads their results. Results that
///    live longer take at most a quarter of the bytes that the program loads
///    from variables, and operands that are kept for later at most 1/16.
/// 2. Calls of different kernels, at most a layer apart, move to the first call
///    if their operands are computed there.
void gatherLaunches(mlir::func::FuncOp program);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_GATHERLAUNCHES_H
