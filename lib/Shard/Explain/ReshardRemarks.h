//===- ReshardRemarks.h - Remarks on reshards -------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H

#include "heddle/Sharding/ReshardSequence.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Emits a remark for each heddle.reshard of the function in which a device
/// sends `leastBytes` or more. The remark names the op that needs the tensor,
/// the sharding that it needs, the bytes and the time. Notes name changes that
/// would avoid the reshard, with their cost elsewhere:
/// - another assignment of the operator that makes or uses the tensor, with the
///   bytes that a device then sends for all of the operator's tensors;
/// - another storage of a variable, with the bytes that a device then holds;
/// - another sharding of an argument or result.
/// Every assignment that a note names has been checked against the rule of its
/// operator. If there is none, a note names the two shardings that differ.
/// Expects complete `heddle.factors`.
void emitReshardRemarks(mlir::func::FuncOp function, MeshRef mesh,
                        ReshardSequences &sequences, int64_t leastBytes);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H
