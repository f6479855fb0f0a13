//===- PartialSums.h - How far partial sums travel --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_PARTIALSUMS_H
#define HEDDLE_LIB_SHARD_PARTIALSUMS_H

#include "heddle/Shard/FactorShardings.h"

namespace heddle {

/// Which values of a block stay partial until their uses.
///
/// A partial sum may pass through an op if the op is linear in one group of
/// operands, all of the group are partial over the same axes, which the op uses
/// for nothing else, nothing else is partial, and the rule says that the op is
/// cheap (`defersPartialSums`). A value is passed on only if all its uses pass
/// it on, for otherwise it would be reduced twice; and only into a result that
/// is no larger, for that is what is reduced in the end.
class PartialSums {
public:
  /// `factors` has the assignment of every op of the block.
  PartialSums(
      mlir::Block &block, MeshRef mesh,
      llvm::function_ref<FactorAxes(mlir::Operation *, const ShardingRule &)>
          factors);

  /// The axes over which the value is a partial sum when its op made it.
  llvm::ArrayRef<mlir::StringAttr> getPartialAxes(mlir::Value value) const;
  /// Whether its uses take it as such.
  bool isKept(mlir::Value value) const { return kept.contains(value); }

private:
  /// The axes of the result if partial operands pass through the op.
  Axes passThrough(mlir::Operation *op, const ShardingRule &rule,
                   const FactorAxes &factors) const;

  llvm::DenseMap<mlir::Value, Axes> partial;
  llvm::DenseSet<mlir::Value> kept;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_PARTIALSUMS_H
