//===- PartialSums.h - Values that stay partial sums ------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_PARTIALSUMS_H
#define HEDDLE_SHARDING_PARTIALSUMS_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// Decides which values of a block stay partial sums until their uses.
///
/// A partial sum may pass through an op if the op is linear in one group of
/// operands and the rule says that the op is cheap (`defersPartialSums`). All
/// operands of the group must be partial over the same axes, no other operand
/// partial, and the op must not use these axes otherwise. A value is passed on
/// only if all its uses pass it on, because it would be reduced twice
/// otherwise, and only into a result that is no larger, because the result is
/// reduced in the end.
///
/// An op that splits a factor over the axes may give them up if it thereby
/// makes one partial sum of several. Then one sum is scattered in front of the
/// op's use, in place of several in front of the op. Example: the gradients of
/// a norm's output that come from queries, keys and values under sequence
/// parallelism.
///
/// A variable may be stored as a partial sum to which a program adds others. A
/// load of it is partial, and a store takes a value that is partial over its
/// axes. Any use but adding to it and storing the sum again needs it whole.
class PartialSums {
public:
  /// `factors` has the assignment of every op of the block. `mayRelease` says
  /// which ops may give up their axes. `stored` gives the axes over which the
  /// variable of a load or store is a partial sum.
  PartialSums(
      mlir::Block &block, MeshRef mesh,
      llvm::function_ref<FactorAxes(mlir::Operation *, const ShardingRule &)>
          factors,
      llvm::function_ref<bool(mlir::Operation *)> mayRelease = nullptr,
      llvm::function_ref<Axes(mlir::Operation *)> stored = nullptr);

  /// The axes over which the value is a partial sum as its op makes it.
  llvm::ArrayRef<mlir::StringAttr> getPartialAxes(mlir::Value value) const;
  /// Whether the value's uses take it as a partial sum.
  bool isKept(mlir::Value value) const { return kept.contains(value); }
  /// Ops and the axes that they give up for a partial sum.
  const llvm::MapVector<mlir::Operation *, Axes> &getReleased() const {
    return released;
  }

private:
  /// The axes of the result if partial operands pass through the op.
  struct Passage {
    Axes axes;
    bool releases = false; ///< the op gives up these axes
  };
  Passage passThrough(mlir::Operation *op, const ShardingRule &rule,
                      const FactorAxes &factors, bool mayRelease) const;

  llvm::DenseMap<mlir::Value, Axes> partial;
  llvm::DenseSet<mlir::Value> kept;
  llvm::MapVector<mlir::Operation *, Axes> released;
};

} // namespace heddle

#endif // HEDDLE_SHARDING_PARTIALSUMS_H
