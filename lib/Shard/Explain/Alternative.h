//===- Alternative.h - Another assignment of one op -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H
#define HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H

#include "heddle/Sharding/ReshardSequence.h"

namespace heddle {

/// Another assignment of mesh axes to the factors of one op, and its effects,
/// for advice in remarks. Expects a program with its reshards
/// (insert-reshards).
class Alternative {
public:
  Alternative(mlir::Operation *op, MeshRef mesh);

  /// These functions start from the op's own assignment and change it:
  /// - changeForOperand: the op needs the operand as `wanted`;
  /// - changeForResult: the op makes the result as `wanted`;
  /// - changeToAvoid: `axes` split no factor. In a ring, whose two factors are
  ///   split over the same axes, the first factor keeps them.
  /// Each returns false if no assignment does that.
  bool changeForOperand(unsigned index, ShardingAttr wanted);
  bool changeForResult(unsigned index, ShardingAttr wanted);
  bool changeToAvoid(llvm::ArrayRef<mlir::StringAttr> axes);

  /// Returns the change as a plan writes it, `"operators": {"NAME": {…}}`, or
  /// as `heddle.factors = …` for an op without a name. Empty if a plan cannot
  /// express the change.
  std::string describe() const;

  /// Describes the bytes that a device would send for all operands and results
  /// of the op if only this op changed, and the bytes that it sends without the
  /// change. `exchanged` is the cost of the op's own exchange, which the change
  /// would save.
  std::string describeTraffic(ReshardSequences &sequences,
                              CollectiveCost exchanged = {}) const;

private:
  /// Assigns axes to the factors of `tensor` so that its dimensions are split
  /// as in `wanted`.
  bool assign(const TensorFactors &tensor, ShardingAttr wanted);

  mlir::Operation *op;
  MeshRef mesh;
  ShardingRule rule;
  FactorAxes known, axes;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H
