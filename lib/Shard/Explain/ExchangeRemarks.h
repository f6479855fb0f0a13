//===- ExchangeRemarks.h - What ops send as they compute --------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_EXCHANGEREMARKS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_EXCHANGEREMARKS_H

#include "CommunicationRemarks.h"
#include "heddle/Sharding/ReshardSequence.h"

namespace heddle {

/// Adds a remark, if it is wanted, on what the localization of an op (`made`)
/// sends of its own: the halos of a convolution, the keys that go round in a
/// ring, sums of parts. A note says which factors would avoid it, and what a
/// device would then send for the op in all. Expects the op's reshards.
void addExchangeRemark(mlir::Operation *op,
                       llvm::iterator_range<mlir::Block::iterator> made,
                       MeshRef mesh, ReshardSequences &sequences,
                       CommunicationRemarks &remarks);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_EXCHANGEREMARKS_H
