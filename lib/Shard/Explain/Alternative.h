//===- Alternative.h - Another assignment of one op -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H
#define HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H

#include "heddle/Sharding/ReshardSequence.h"

namespace heddle {

/// What another assignment of mesh axes to the factors of one op would do, for
/// advice in remarks. Expects a program with its reshards (insert-reshards).
class Alternative {
public:
  Alternative(mlir::Operation *op, MeshRef mesh);

  /// Each of these changes the assignment, so that the operand is needed as
  /// `wanted`, or a result comes out as `wanted`, or nothing is split over the
  /// axes but the first of two factors that meet; false, if none will do. They
  /// begin with the op's own assignment.
  bool changeForOperand(unsigned index, ShardingAttr wanted);
  bool changeForResult(unsigned index, ShardingAttr wanted);
  bool changeToAvoid(llvm::ArrayRef<mlir::StringAttr> axes);

  /// What has changed: `"operators": {"NAME": {…}}`, as a plan writes it; for
  /// an op without a name, `heddle.factors = …`. Empty: a plan cannot say it.
  std::string describe() const;

  /// Says what a device would send for all operands and results of the op, with
  /// nothing else changed, and what it sends as it is; `exchanged`: that the op
  /// itself sends as it is, and would not.
  std::string describeTraffic(ReshardSequences &sequences,
                              CollectiveCost exchanged = {}) const;

private:
  /// Splits the factors of a tensor as its dimensions are to be split.
  bool assign(const TensorFactors &tensor, ShardingAttr wanted);

  mlir::Operation *op;
  MeshRef mesh;
  ShardingRule rule;
  FactorAxes known, axes;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H
