//===- ReshardRemarks.h - Remarks on reshards -------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H

#include "heddle/Sharding/ReshardSequence.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Emits remarks on each heddle.reshard of the function that has a use and in
/// which a device sends `leastBytes` or more; none if `leastBytes` is -1.
/// Remarks that differ only in the numbers within names are merged (see
/// CommunicationRemarks). A remark names the op that needs the tensor, the
/// sharding that it needs, the bytes and the time. Its notes suggest changes
/// that would avoid the reshard:
/// - another assignment of the operator that makes or uses the tensor, with the
///   bytes that a device then sends for all of the operator's tensors;
/// - another storage of a variable, with the bytes that a device then holds;
/// - another pin;
/// - another sharding of an argument or result.
/// Every assignment that a note names has been checked against the rule of its
/// operator. If no change is found, a note names the two shardings that differ.
/// If the reshard sums a variable that accumulates over the micro-batches, a
/// note says that one such sum a step is necessary. Expects complete
/// `heddle.factors`.
void emitReshardRemarks(mlir::func::FuncOp function, MeshRef mesh,
                        ReshardSequences &sequences, int64_t leastBytes);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_RESHARDREMARKS_H
