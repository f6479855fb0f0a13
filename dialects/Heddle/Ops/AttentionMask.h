//===- AttentionMask.h - Shape of an attention's mask -----------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_OPS_ATTENTIONMASK_H
#define HEDDLE_DIALECTS_HEDDLE_OPS_ATTENTIONMASK_H

#include "mlir/IR/Operation.h"

namespace heddle {

/// Checks that each size of the mask is 1 or that of its dimension: batch,
/// query, group, member if there is one, and key of the whole sequence. `lse`
/// is the shape of the attention's lse: all those dimensions but the last one.
mlir::LogicalResult verifyAttentionMask(mlir::Operation *op,
                                        llvm::ArrayRef<int64_t> mask,
                                        llvm::ArrayRef<int64_t> lse,
                                        int64_t keys);

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_OPS_ATTENTIONMASK_H
