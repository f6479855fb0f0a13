//===- OpSlices.cpp - Runs one op on a part of a factor -------------------===//

#include "OpSlices.h"
#include "heddle/Sharding/Pins.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Localizes an op for one slice. Slices split one factor of the op, as devices
/// would.
class SliceLocalizer final : public Localizer {
public:
  SliceLocalizer(OpBuilder &builder, ValueRange operands, TypeRange types,
                 Location loc, const FactorSlice &slice)
      : Localizer(builder, operands, types), loc(loc), slice(slice) {}

  bool isSplit(unsigned other) const override { return other == slice.factor; }
  bool isPadded(unsigned) const override { return false; }
  Value getOffset(unsigned other) override {
    return makeIndex(other == slice.factor ? slice.offset : 0);
  }
  Value getIndex(unsigned other) override {
    return makeIndex(other == slice.factor ? slice.index : 0);
  }
  Value allReduce(Value value, FactorKind, unsigned) override {
    needsOthers = true;
    return value;
  }
  // An op asks for the number of parts in order to exchange data with other
  // parts, and would assume that all parts have the same size. Slices allow
  // neither.
  int64_t getDegree(unsigned) const override {
    needsOthers = true;
    return 1;
  }
  Value permute(Value value, ArrayRef<int64_t>, unsigned) override {
    needsOthers = true;
    return value;
  }
  bool doFactorsMeet() const override { return false; }

  mutable bool needsOthers = false;

private:
  Value makeIndex(int64_t index) {
    return builder.create<arith::ConstantIndexOp>(loc, index);
  }

  Location loc;
  const FactorSlice &slice;
};

} // namespace

FailureOr<SliceResults> heddle::runOnSlice(OpBuilder &builder, Operation *op,
                                           ValueRange operands, TypeRange types,
                                           const FactorSlice &slice) {
  SliceLocalizer localizer(builder, operands, types, op->getLoc(), slice);
  SliceResults results;
  if (auto shardable = dyn_cast<ShardingRuleOpInterface>(op)) {
    FailureOr<SmallVector<Value>> own = shardable.localize(localizer);
    if (failed(own))
      return failure();
    results.values = std::move(*own);
  } else {
    results.values = localizeByCloning(op, localizer);
  }
  results.needsOthers = localizer.needsOthers;
  for (Value result : results.values)
    if (Operation *copy = result.getDefiningOp()) {
      copy->removeAttr(kPinAttrName); // movePin sets it
      if (Attribute factors = op->getAttr(kFactorsAttrName);
          factors && copy->getName() == op->getName()) {
        copy->setAttr(kFactorsAttrName, factors);
        if (Attribute priority = op->getAttr(kPriorityAttrName))
          copy->setAttr(kPriorityAttrName, priority);
      }
    }
  return results;
}

Value heddle::makeFreeSlice(OpBuilder &builder, Operation *maker,
                            ValueRange operands, Type type, int64_t dim,
                            int64_t index, int64_t offset) {
  ShardingRule rule = getRule(maker);
  const DimensionFactors &along = rule.results[0][dim];
  if (along.size() != 1 || rule.factors[along[0]].kind != FactorKind::Parallel)
    return nullptr;
  Type types[] = {type};
  FailureOr<SliceResults> results =
      runOnSlice(builder, maker, operands, types, {along[0], index, offset});
  return succeeded(results) && !results->needsOthers ? results->values[0]
                                                     : nullptr;
}

bool heddle::isAccumulator(const ShardingRule &rule, unsigned factor,
                           unsigned operand) {
  auto runs = [&](unsigned other) {
    return ShardingRule::runsOver(rule.operands[other], factor);
  };
  return rule.factors[factor].kind == FactorKind::Sum && !runs(operand) &&
         llvm::any_of(rule.linear, [&](const LinearGroup &group) {
           return llvm::is_contained(group.operands, operand) &&
                  llvm::any_of(group.operands, runs);
         });
}

std::optional<int64_t> heddle::findDim(const TensorFactors &tensor,
                                       unsigned factor) {
  for (auto [dim, factors] : llvm::enumerate(tensor))
    if (llvm::is_contained(factors, factor))
      return dim;
  return std::nullopt;
}

RankedTensorType heddle::getSumType(Operation *op, RankedTensorType type) {
  if (!isa<ContractOp, ReduceOp>(op) ||
      !(type.getElementType().isBF16() || type.getElementType().isF16()))
    return type;
  return type.clone(Float32Type::get(type.getContext()));
}

Value heddle::combineSlices(OpBuilder &builder, Location loc, Value a, Value b,
                            FactorKind kind) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(a.getType()));
  if (kind == FactorKind::Max)
    return isFloat ? builder.create<arith::MaximumFOp>(loc, a, b).getResult()
                   : builder.create<arith::MaxSIOp>(loc, a, b).getResult();
  return isFloat ? builder.create<arith::AddFOp>(loc, a, b).getResult()
                 : builder.create<arith::AddIOp>(loc, a, b).getResult();
}

void heddle::movePin(OpResult from, Value to) {
  ShardingAttr pin = getPinOf(from);
  auto result = dyn_cast<OpResult>(to);
  if (!pin || !result)
    return;
  setPinOf(result, pin);
  if (Attribute priority = from.getOwner()->getAttr(kPriorityAttrName))
    result.getOwner()->setAttr(kPriorityAttrName, priority);
}
