//===- Alternative.h - Another assignment of one op -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H
#define HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H

#include "heddle/Sharding/ReshardSequence.h"

namespace heddle {

/// Another assignment of mesh axes to the factors of one op and its effects,
/// for advice in remarks. Expects a program with its reshards
/// (insert-reshards).
class Alternative {
public:
  Alternative(mlir::Operation *op, MeshRef mesh);

  /// Each of these starts from the op's own assignment and changes it.
  /// Afterwards the operand is needed as `wanted`, or a result comes out as
  /// `wanted`, or of two factors that meet only the first is split over the
  /// axes. False if no assignment does that.
  bool changeForOperand(unsigned index, ShardingAttr wanted);
  bool changeForResult(unsigned index, ShardingAttr wanted);
  bool changeToAvoid(llvm::ArrayRef<mlir::StringAttr> axes);

  /// The change as a plan writes it: `"operators": {"NAME": {…}}`; for an op
  /// without a name, `heddle.factors = …`. Empty if a plan cannot express it.
  std::string describe() const;

  /// Describes the bytes that a device would send for all operands and results
  /// of the op, with nothing else changed, and the bytes that it sends now.
  /// `exchanged` is the cost of the op's own exchange, which the alternative
  /// would save.
  std::string describeTraffic(ReshardSequences &sequences,
                              CollectiveCost exchanged = {}) const;

private:
  /// Assigns axes to the tensor's factors so that its dimensions are split as
  /// wanted.
  bool assign(const TensorFactors &tensor, ShardingAttr wanted);

  mlir::Operation *op;
  MeshRef mesh;
  ShardingRule rule;
  FactorAxes known, axes;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_ALTERNATIVE_H
