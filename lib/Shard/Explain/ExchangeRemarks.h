//===- ExchangeRemarks.h - Remarks on exchanges inside of ops ---*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_EXCHANGEREMARKS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_EXCHANGEREMARKS_H

#include "CommunicationRemarks.h"
#include "heddle/Sharding/ReshardSequence.h"

namespace heddle {

/// Adds a remark on the exchange inside of an op, if remarks are wanted: the
/// halos of a convolution, the keys that go round in a ring, sums of parts.
/// `made` is the op's localization. A note names factors that would avoid the
/// exchange, and the bytes that a device would then send for the op in all.
/// Expects the reshards of the op's operands and results.
void addExchangeRemark(mlir::Operation *op,
                       llvm::iterator_range<mlir::Block::iterator> made,
                       MeshRef mesh, ReshardSequences &sequences,
                       CommunicationRemarks &remarks);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_EXCHANGEREMARKS_H
