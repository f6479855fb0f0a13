//===- HeddleLocalize.cpp - Ops that depend on global positions -----------===//
//
// The localization of ops whose result depends on the global index of an
// element, or on all values of a split factor (log-sum-exp over a vocabulary).
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

using LocalResults = FailureOr<SmallVector<Value>>;

/// Adds this device's offset along the factor to `present`, the op's own
/// offset. A null Value stands for the offset 0.
static Value addOffset(Localizer &localizer, Location loc, unsigned factor,
                       Value present) {
  if (!localizer.isSplit(factor))
    return present;
  Value offset = localizer.getOffset(factor);
  if (!present)
    return offset;
  return localizer.builder.create<arith::AddIOp>(loc, offset, present);
}

static unsigned factorOf(const ShardingRule &rule, StringRef name) {
  return *rule.getFactor(name); // the op's own rule has it
}

/// Sets the padding of the local logits, the columns beyond the vocabulary, to
/// the lowest finite number, so that it adds nothing to a sum of exponentials.
static Value maskLogits(Localizer &localizer, Location loc, Value logits,
                        unsigned factor, int64_t vocabulary) {
  if (!localizer.isPadded(factor))
    return logits;
  int64_t last = cast<RankedTensorType>(logits.getType()).getRank() - 1;
  return localizer.builder.create<MaskPaddingOp>(
      loc, logits.getType(), logits, ValueRange{localizer.getOffset(factor)},
      ArrayRef<int64_t>{last}, ArrayRef<int64_t>{vocabulary},
      PaddingValue::Lowest);
}

/// Combines `lse`, each device's log(sum(exp)) over its own columns, into the
/// one over all columns: m + log(sum over devices of exp(lse - m)), where m is
/// the largest lse.
static Value combineLogSumExp(Localizer &localizer, Location loc, Value lse,
                              unsigned factor) {
  OpBuilder &builder = localizer.builder;
  Value largest = localizer.allReduce(lse, FactorKind::Max, factor);
  Value scaled = builder.create<math::ExpOp>(
      loc, builder.create<arith::SubFOp>(loc, lse, largest));
  Value sum = localizer.allReduce(scaled, FactorKind::Sum, factor);
  return builder.create<arith::AddFOp>(loc, largest,
                                       builder.create<math::LogOp>(loc, sum));
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

LocalResults EmbeddingOp::localize(Localizer &localizer) {
  Value offset =
      addOffset(localizer, getLoc(), factorOf(getShardingRule(), "v"),
                getOffset() ? localizer.operands[2] : Value());
  return SmallVector<Value>{localizer.builder.create<EmbeddingOp>(
      getLoc(), localizer.resultTypes[0], localizer.operands[0],
      localizer.operands[1], offset, getOpNameAttr())};
}

LocalResults EmbeddingGradOp::localize(Localizer &localizer) {
  Value accumulate = getAccumulate() ? localizer.operands[2] : Value();
  Value offset =
      addOffset(localizer, getLoc(), factorOf(getShardingRule(), "v"),
                getOffset() ? localizer.operands.back() : Value());
  return SmallVector<Value>{localizer.builder.create<EmbeddingGradOp>(
      getLoc(), localizer.resultTypes[0], localizer.operands[0],
      localizer.operands[1], accumulate, offset, getOpNameAttr())};
}

LocalResults CrossEntropyOp::localize(Localizer &localizer) {
  ShardingRule rule = getShardingRule();
  unsigned vocabulary = factorOf(rule, "v");
  if (!localizer.isSplit(vocabulary))
    return localizeByCloning(*this, localizer);
  OpBuilder &builder = localizer.builder;
  Location loc = getLoc();
  Value targets = localizer.operands[1];
  auto type = cast<RankedTensorType>(localizer.resultTypes[0]);
  Value logits = maskLogits(localizer, loc, localizer.operands[0], vocabulary,
                            rule.factors[vocabulary].size);
  Value lse = combineLogSumExp(
      localizer, loc,
      builder.create<LogSumExpOp>(loc, type, logits, getOpNameAttr()),
      vocabulary);
  Value picked = localizer.allReduce(
      builder.create<PickOp>(loc, type, logits, targets,
                             localizer.getOffset(vocabulary), getOpNameAttr()),
      FactorKind::Sum, vocabulary);
  auto splat = [&](RankedTensorType type, Attribute value) -> Value {
    return builder.create<arith::ConstantOp>(
        loc, DenseElementsAttr::get(type, value));
  };
  auto ids = cast<RankedTensorType>(targets.getType());
  Value ignored = builder.create<arith::CmpIOp>(
      loc, arith::CmpIPredicate::eq, targets,
      splat(ids, builder.getIntegerAttr(ids.getElementType(),
                                        (int64_t)getIgnoreIndex())));
  Value loss = builder.create<arith::SelectOp>(
      loc, ignored, splat(type, builder.getFloatAttr(type.getElementType(), 0)),
      builder.create<arith::SubFOp>(loc, lse, picked));
  return SmallVector<Value>{loss, lse};
}

LocalResults CrossEntropyGradOp::localize(Localizer &localizer) {
  ShardingRule rule = getShardingRule();
  unsigned vocabulary = factorOf(rule, "v");
  Value logits = maskLogits(localizer, getLoc(), localizer.operands[0],
                            vocabulary, rule.factors[vocabulary].size);
  Value offset = addOffset(localizer, getLoc(), vocabulary,
                           getOffset() ? localizer.operands[4] : Value());
  return SmallVector<Value>{localizer.builder.create<CrossEntropyGradOp>(
      getLoc(), localizer.resultTypes[0], logits, localizer.operands[1],
      localizer.operands[2], localizer.operands[3], offset,
      getIgnoreIndexAttr(), getOpNameAttr())};
}

LocalResults LogSumExpOp::localize(Localizer &localizer) {
  ShardingRule rule = getShardingRule();
  unsigned vocabulary = factorOf(rule, "v");
  if (!localizer.isSplit(vocabulary))
    return localizeByCloning(*this, localizer);
  Value logits = maskLogits(localizer, getLoc(), localizer.operands[0],
                            vocabulary, rule.factors[vocabulary].size);
  Value lse = localizer.builder.create<LogSumExpOp>(
      getLoc(), localizer.resultTypes[0], logits, getOpNameAttr());
  return SmallVector<Value>{
      combineLogSumExp(localizer, getLoc(), lse, vocabulary)};
}

LocalResults PickOp::localize(Localizer &localizer) {
  Value offset =
      addOffset(localizer, getLoc(), factorOf(getShardingRule(), "v"),
                getOffset() ? localizer.operands[2] : Value());
  return SmallVector<Value>{localizer.builder.create<PickOp>(
      getLoc(), localizer.resultTypes[0], localizer.operands[0],
      localizer.operands[1], offset, getOpNameAttr())};
}

//===----------------------------------------------------------------------===//
// Random numbers and positions
//===----------------------------------------------------------------------===//

LocalResults DropoutOp::localize(Localizer &localizer) {
  ShardingRule rule = getShardingRule();
  bool anySplit = false;
  for (unsigned i = 0; i < rule.factors.size(); ++i)
    anySplit |= localizer.isSplit(i);
  if (!anySplit)
    return localizeByCloning(*this, localizer);
  // A part of a tensor (a sub-batch) has offsets of its own already.
  ValueRange present = localizer.operands.take_back(getOffsets().size());
  SmallVector<Value> offsets;
  for (auto [i, dim] : llvm::enumerate(rule.results[0]))
    offsets.push_back(present.empty()
                          ? localizer.getOffset(dim[0])
                          : addOffset(localizer, getLoc(), dim[0], present[i]));
  SmallVector<Value> locals = localizeByCloning(*this, localizer);
  auto local = cast<DropoutOp>(locals.front().getDefiningOp());
  local.getOffsetsMutable().assign(offsets);
  if (!getGlobalShape())
    local.setGlobalShape(getX().getType().getShape());
  return locals;
}

LocalResults RotaryTableOp::localize(Localizer &localizer) {
  Value offset =
      addOffset(localizer, getLoc(), factorOf(getShardingRule(), "s"),
                getOffset() ? localizer.operands[0] : Value());
  auto local = localizer.builder.create<RotaryTableOp>(
      getLoc(), localizer.resultTypes, offset, getFrequenciesAttr(),
      getOpNameAttr());
  return SmallVector<Value>{local.getCos(), local.getSin()};
}
