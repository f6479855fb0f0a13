//===- Batches.h - Launches that a GPU runs as one --------------*- C++ -*-===//
//
// An optimizer updates a hundred tensors by the same few kernels, each of which
// is over in microseconds. A GPU runs such launches as one: the kernel finds
// the buffers of each *copy* in a table.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_BATCHES_BATCHES_H
#define HEDDLE_LIB_LOWER_BATCHES_BATCHES_H

#include "dialects/Rt/Rt.h"

namespace heddle {

/// On a call of a kernel, and on its rt.launch: the number of its batch in the
/// program. The calls of a batch are independent and follow each other. Until
/// heddle-lower-kernels-to-gpu, they may call several kernels; those that then
/// get a function together have a batch of their own.
inline constexpr llvm::StringLiteral kBatchAttrName = "rt.batch";
/// On a kernel for a GPU whose only parameter is a table: the number of
/// launches that it runs. The table has the parameters of one launch after the
/// other, in 8 bytes each.
inline constexpr llvm::StringLiteral kLaunchesAttrName = "rt.launches";
/// On such a kernel: by entry of the table, the bytes of the buffer that the
/// kernel may touch; -1: a number.
inline constexpr llvm::StringLiteral kTableAttrName = "rt.table";

/// Returns all launches of a launch's batch, in order: the launch alone if it
/// has none.
llvm::SmallVector<rt::LaunchOp> getBatch(rt::LaunchOp launch);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_BATCHES_BATCHES_H
