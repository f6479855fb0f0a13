//===- ReshardSequence.h - Collectives between two shardings ----*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_RESHARDSEQUENCE_H
#define HEDDLE_LIB_SHARD_RESHARDSEQUENCE_H

#include "heddle/Shard/FactorShardings.h"

namespace heddle {

/// One step of a resharding.
struct ReshardStep {
  enum Kind {
    Slice,         ///< dim is split by axes, too; nothing moves
    ReduceScatter, ///< axes leave the partial and split dim
    AllReduce,     ///< axes leave the partial
    AllToAll,      ///< axes leave concatDim and split dim
    AllGather,     ///< axes leave dim
    KeepFirst,     ///< only the first device over axes keeps the value, the
                   ///< others zero: a replicated value becomes a partial sum
  };
  Kind kind;
  Axes axes;
  int64_t dim = 0, concatDim = 0;
  ShardingAttr after;
};

/// The steps from one sharding of a tensor to another, fewest bytes first: what
/// makes data smaller before what leaves it, and that before what makes it
/// larger. Works on global sizes: where parts do not nest (a dimension of size
/// S over axes a, b with ceil(S / a) != b * ceil(S / (a * b))), the dimension
/// is gathered whole and sliced anew. Fails only if a maximum would have to
/// become a partial sum.
mlir::FailureOr<llvm::SmallVector<ReshardStep>>
planReshard(mlir::RankedTensorType type, ShardingAttr from, ShardingAttr to,
            MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RESHARDSEQUENCE_H
