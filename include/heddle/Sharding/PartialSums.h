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
/// operands of the group must be partial over the same axes, all other operands
/// must be complete, and the op must not split a factor over these axes. A
/// value is kept as a partial sum only if all its uses pass it on, because it
/// would otherwise be reduced twice. The op's results must not be larger than
/// its partial operands, because the results are reduced in the end.
///
/// An op that splits a factor over the axes may give them up if it thereby
/// makes one partial sum of several. Then one sum is scattered after the op, in
/// place of several before it. Example under sequence parallelism: a norm's
/// output is used by queries, keys and values, and the gradients that come from
/// these are added.
///
/// A variable may be stored as a partial sum, to which a program adds other
/// partial sums. A load of it is partial, and a store takes a value that is
/// partial over the same axes. Only the addition whose sum is stored again may
/// read the partial sum; any other use needs the complete value.
class PartialSums {
public:
  /// `factors` returns the assignment of an op of the block. `mayRelease`
  /// returns whether an op may give up its axes. `stored` returns the axes over
  /// which the variable of a load or store is a partial sum.
  PartialSums(
      mlir::Block &block, MeshRef mesh,
      llvm::function_ref<FactorAxes(mlir::Operation *, const ShardingRule &)>
          factors,
      llvm::function_ref<bool(mlir::Operation *)> mayRelease = nullptr,
      llvm::function_ref<Axes(mlir::Operation *)> stored = nullptr);

  /// Returns the axes over which the value is a partial sum when its op makes
  /// it.
  llvm::ArrayRef<mlir::StringAttr> getPartialAxes(mlir::Value value) const;
  /// Returns whether the value's uses take it as a partial sum.
  bool isKept(mlir::Value value) const { return kept.contains(value); }
  /// Returns the ops that give up axes for a partial sum, with these axes.
  const llvm::MapVector<mlir::Operation *, Axes> &getReleased() const {
    return released;
  }

private:
  /// The partial axes that pass through an op from its operands to its results.
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
