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
/// program. The calls of a batch are independent and follow each other. They
/// may call several kernels. heddle-lower-kernels-to-gpu splits such a batch,
/// so that each function it builds has a batch of its own.
inline constexpr llvm::StringLiteral kBatchAttrName = "rt.batch";
/// On a kernel for a GPU whose only parameter is a table: the number of
/// launches that it runs. The table has the parameters of one launch after the
/// other, in 8 bytes each.
inline constexpr llvm::StringLiteral kLaunchesAttrName = "rt.launches";
/// On such a kernel, for each entry of the table: the bytes of the buffer that
/// the kernel may touch, or -1 if the entry is a number.
inline constexpr llvm::StringLiteral kTableAttrName = "rt.table";

/// Returns all launches of a launch's batch, in order. Returns the launch alone
/// if it has no batch.
llvm::SmallVector<rt::LaunchOp> getBatch(rt::LaunchOp launch);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_BATCHES_BATCHES_H
