//===- ReshardRemarks.h - Remarks on reshards -------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H

#include "heddle/Sharding/ReshardSequence.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Emits a remark for each heddle.reshard of the function in which a device
/// sends `leastBytes` or more. The remark says which op needs the tensor
/// otherwise than it lies, the bytes, and the time. Notes say which change
/// would avoid it, and what the change would cost elsewhere:
/// - another assignment of the operator that makes or uses the tensor, with the
///   bytes that a device then sends for all of the operator's tensors;
/// - another storage of a variable, with the bytes that a device then holds;
/// - another sharding of an argument or result.
/// Every assignment that a note names has been checked against the rule of its
/// operator. Where there is none, a note names the shardings that would have to
/// agree. Expects complete `heddle.factors`.
void emitReshardRemarks(mlir::func::FuncOp function, MeshRef mesh,
                        ReshardSequences &sequences, int64_t leastBytes);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H
