//===- PartialSums.h - How far partial sums travel --------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_PARTIALSUMS_H
#define HEDDLE_SHARDING_PARTIALSUMS_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// Which values of a block stay partial until their uses.
///
/// A partial sum may pass through an op if the op is linear in one group of
/// operands, all of the group are partial over the same axes, which the op uses
/// for nothing else, nothing else is partial, and the rule says that the op is
/// cheap (`defersPartialSums`). A value is passed on only if all its uses pass
/// it on, for otherwise it would be reduced twice; and only into a result that
/// is no larger, for that is what is reduced in the end.
///
/// An op that splits a factor over the axes may give these up, if it makes one
/// partial sum of several: then one is scattered in front of its use in place
/// of each in front of the op. (The gradients of a norm's output that come from
/// queries, keys and values under sequence parallelism.)
///
/// A variable may be stored as a partial sum, to which a program adds others:
/// a load of it is partial, and a store takes what is partial over its axes.
/// Anything else than to add to it and to store the sum again needs it whole.
class PartialSums {
public:
  /// `factors` has the assignment of every op of the block; `mayRelease` tells
  /// which ops may give up axes of theirs; `stored` over which axes the
  /// variable of a load or store is a partial sum.
  PartialSums(
      mlir::Block &block, MeshRef mesh,
      llvm::function_ref<FactorAxes(mlir::Operation *, const ShardingRule &)>
          factors,
      llvm::function_ref<bool(mlir::Operation *)> mayRelease = nullptr,
      llvm::function_ref<Axes(mlir::Operation *)> stored = nullptr);

  /// The axes over which the value is a partial sum when its op made it.
  llvm::ArrayRef<mlir::StringAttr> getPartialAxes(mlir::Value value) const;
  /// Whether its uses take it as such.
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
