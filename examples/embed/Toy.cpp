//===- Toy.cpp - What the partitioner has to know of toy ops --------------===//

#include "Toy.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using heddle::FactorKind;
using heddle::PaddingValue;
using heddle::ShardingRule;

#include "ToyDialect.cpp.inc"

#define GET_OP_CLASSES
#include "Toy.cpp.inc"

void toy::ToyDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Toy.cpp.inc"
      >();
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

//===----------------------------------------------------------------------===//
// Sharding rules: which loops run over which dimensions
//===----------------------------------------------------------------------===//

ShardingRule toy::DenseOp::getShardingRule() {
  ShardingRule rule;
  unsigned b = rule.addFactor("b", shapeOf(getX())[0], FactorKind::Parallel);
  unsigned i = rule.addFactor("i", shapeOf(getX())[1], FactorKind::Sum);
  unsigned o = rule.addFactor("o", shapeOf(getW())[1], FactorKind::Parallel);
  rule.operands = {{{b}, {i}}, {{i}, {o}}};
  rule.results = {{{b}, {o}}};
  // The op is linear in each operand. So partial sums may pass through it, and
  // padding with zeros does no harm.
  rule.linear = {{{0}}, {{1}}};
  rule.keepsFinite = true;
  return rule;
}

ShardingRule toy::ReluOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(*this);
  rule.preservesZeroPadding = true;
  rule.keepsFinite = true;
  return rule;
}

/// If a row is split, `localize` below combines the devices' sums over the row.
ShardingRule toy::NormalizeOp::getShardingRule() {
  ShardingRule rule;
  unsigned b = rule.addFactor("b", shapeOf(getX())[0], FactorKind::Parallel);
  unsigned h = rule.addFactor("h", shapeOf(getX())[1], FactorKind::Combine);
  rule.operands = {{{b}, {h}}};
  rule.results = {{{b}, {h}}};
  return rule;
}

FailureOr<SmallVector<Value>>
toy::NormalizeOp::localize(heddle::Localizer &localizer) {
  constexpr unsigned h = 1; // the factor of this number in the rule above
  OpBuilder &builder = localizer.builder;
  Value x = localizer.operands[0];
  // Elements beyond the row's end may have any value, so mask them with zeros.
  if (localizer.isPadded(h))
    x = builder.create<heddle::MaskPaddingOp>(
        getLoc(), x.getType(), x, ValueRange(localizer.getOffset(h)),
        ArrayRef<int64_t>{1}, ArrayRef<int64_t>{shapeOf(getX())[1]},
        PaddingValue::Zero);
  auto perRow = RankedTensorType::get({shapeOf(x)[0]}, builder.getF32Type());
  Value sums = builder.create<SumSquaresOp>(getLoc(), perRow, x);
  sums = localizer.allReduce(sums, FactorKind::Sum, h);
  return SmallVector<Value>{
      builder.create<DivideOp>(getLoc(), localizer.resultTypes[0], x, sums)};
}

ShardingRule toy::SumSquaresOp::getShardingRule() {
  ShardingRule rule;
  unsigned b = rule.addFactor("b", shapeOf(getX())[0], FactorKind::Parallel);
  unsigned h = rule.addFactor("h", shapeOf(getX())[1], FactorKind::Sum);
  rule.operands = {{{b}, {h}}};
  rule.results = {{{b}}};
  return rule;
}

ShardingRule toy::DivideOp::getShardingRule() {
  ShardingRule rule;
  unsigned b = rule.addFactor("b", shapeOf(getX())[0], FactorKind::Parallel);
  unsigned h = rule.addFactor("h", shapeOf(getX())[1], FactorKind::Parallel);
  rule.operands = {{{b}, {h}}, {{b}}};
  rule.results = {{{b}, {h}}};
  rule.linear = {{{0}}};
  return rule;
}
