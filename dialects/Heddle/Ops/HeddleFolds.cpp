//===- HeddleFolds.cpp - Folds and canonicalizations ----------------------===//

#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace heddle;

Operation *HeddleDialect::materializeConstant(OpBuilder &builder,
                                              Attribute value, Type type,
                                              Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

//===----------------------------------------------------------------------===//
// Products and vocabulary
//===----------------------------------------------------------------------===//

namespace {

/// Drops the step of an op without dropout: it draws no random numbers.
template <typename OpTy> struct DropUnusedStep : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (!op.getStep() || !op.getDropout().isZero())
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getStepMutable().clear(); });
    return success();
  }
};

/// Drops an accumulator of zeros.
struct DropZeroAccumulate : OpRewritePattern<EmbeddingGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EmbeddingGradOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getAccumulate() ||
        !matchPattern(op.getAccumulate(), m_AnyZeroFloat()))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getAccumulateMutable().clear(); });
    return success();
  }
};

} // namespace

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<DropUnusedStep<AttentionOp>>(context);
}

void AttentionGradOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                  MLIRContext *context) {
  patterns.add<DropUnusedStep<AttentionGradOp>>(context);
}

void EmbeddingGradOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                  MLIRContext *context) {
  patterns.add<DropZeroAccumulate>(context);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  if (getOver().empty() && getX().getType() == getType())
    return getX();
  return nullptr;
}

namespace {

/// Merges reduce(reduce(x)) of one kind into one reduction, if both have the
/// same element type.
struct MergeReductions : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<ReduceOp>();
    if (!inner || inner.getKind() != op.getKind() || !inner->hasOneUse() ||
        inner.getType().getElementType() != op.getType().getElementType())
      return failure();
    SmallVector<int64_t> kept, over(inner.getOver());
    for (int64_t i = 0; i < inner.getX().getType().getRank(); ++i)
      if (!llvm::is_contained(inner.getOver(), i))
        kept.push_back(i);
    for (int64_t i : op.getOver())
      over.push_back(kept[i]);
    llvm::sort(over);
    rewriter.modifyOpInPlace(op, [&] {
      op.getXMutable().assign(inner.getX());
      op.setOver(over);
    });
    return success();
  }
};

/// Drops a widening cast before a reduction with an f32 result: the reduction
/// widens its operand anyway.
struct ReduceOfExtension : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto cast = op.getX().getDefiningOp<arith::ExtFOp>();
    if (!cast || !op.getType().getElementType().isF32())
      return failure();
    rewriter.modifyOpInPlace(op,
                             [&] { op.getXMutable().assign(cast.getIn()); });
    return success();
  }
};

} // namespace

void ReduceOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<MergeReductions, ReduceOfExtension>(context);
}

//===----------------------------------------------------------------------===//
// Moving of elements
//===----------------------------------------------------------------------===//

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX()))
    return SplatElementsAttr::get(getType(), splat.getSplatValue<Attribute>());
  // broadcast(broadcast(x)) becomes one broadcast.
  if (auto inner = getX().getDefiningOp<BroadcastOp>()) {
    SmallVector<int64_t> along;
    for (int64_t i : inner.getAlong())
      along.push_back(getAlong()[i]);
    getXMutable().assign(inner.getX());
    setAlong(along);
    return getResult();
  }
  return nullptr;
}

LogicalResult UnstackOp::fold(FoldAdaptor,
                              SmallVectorImpl<OpFoldResult> &results) {
  auto stack = getX().getDefiningOp<StackOp>();
  if (!stack)
    return failure();
  results.assign(stack.getSlices().begin(), stack.getSlices().end());
  return success();
}

OpFoldResult StackOp::fold(FoldAdaptor) {
  if (getSlices().empty())
    return nullptr;
  auto unstack = getSlices().front().getDefiningOp<UnstackOp>();
  if (unstack && llvm::equal(unstack.getSlices(), getSlices()))
    return unstack.getX();
  return nullptr;
}

OpFoldResult DropoutOp::fold(FoldAdaptor) {
  if (getRate().isZero())
    return getX();
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

OpFoldResult ReshardOp::fold(FoldAdaptor) {
  if (getFrom() == getTo())
    return getX();
  return nullptr;
}

OpFoldResult MaskPaddingOp::fold(FoldAdaptor) {
  if (getDims().empty())
    return getX();
  // The operand has been masked in the same way already.
  if (auto inner = getX().getDefiningOp<MaskPaddingOp>())
    if (inner.getDims() == getDims() && inner.getSizes() == getSizes() &&
        inner.getValue() == getValue() &&
        llvm::equal(inner.getOffsets(), getOffsets()))
      return getX();
  return nullptr;
}
