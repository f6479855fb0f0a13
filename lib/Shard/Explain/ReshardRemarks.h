//===- ReshardRemarks.h - Says what moves, and what would not ---*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H

#include "heddle/Sharding/ReshardSequence.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// A remark for each heddle.reshard of the function in which a device sends
/// `leastBytes` or more: who needs the tensor otherwise than it lies, what is
/// sent and how long that takes. Notes say what would avoid it, and what that
/// would cost elsewhere: another assignment of the operator that makes the
/// tensor or of the one that uses it (with what a device then sends for all of
/// the operator's tensors), another storage of a variable (with what a device
/// then holds of it), another sharding of an argument or result. Every
/// assignment that a note names has been checked against the rule of its
/// operator; where there is none, a note names the shardings that would have to
/// agree. Expects complete `heddle.factors`.
void emitReshardRemarks(mlir::func::FuncOp function, MeshRef mesh,
                        ReshardSequences &sequences, int64_t leastBytes);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H
