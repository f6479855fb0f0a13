//===- UpstreamTensorVjps.cpp - Gradients of tensor ops -------------------===//
//
// These ops only move elements, so their gradients move elements back.
//
//===----------------------------------------------------------------------===//

#include "UpstreamVjps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// tensor
//===----------------------------------------------------------------------===//

static LogicalResult expandVjp(tensor::ExpandShapeOp op, VjpContext &c) {
  c.operandGrads[0] = c.make<tensor::CollapseShapeOp>(
      Type(op.getSrcType()), c.grads[0], op.getReassociationIndices());
  return success();
}

static LogicalResult collapseVjp(tensor::CollapseShapeOp op, VjpContext &c) {
  c.operandGrads[0] = c.make<tensor::ExpandShapeOp>(
      Type(op.getSrcType()), c.grads[0], op.getReassociationIndices());
  return success();
}

static LogicalResult castVjp(tensor::CastOp op, VjpContext &c) {
  c.operandGrads[0] =
      c.make<tensor::CastOp>(op.getSource().getType(), c.grads[0]);
  return success();
}

static LogicalResult extractVjp(tensor::ExtractSliceOp op, VjpContext &c) {
  c.operandGrads[0] = c.make<tensor::InsertSliceOp>(
      c.grads[0], c.zero(op.getSourceType()), op.getMixedOffsets(),
      op.getMixedSizes(), op.getMixedStrides());
  return success();
}

static LogicalResult insertVjp(tensor::InsertSliceOp op, VjpContext &c) {
  if (c.wanted[0])
    c.operandGrads[0] = c.make<tensor::ExtractSliceOp>(
        op.getSourceType(), c.grads[0], op.getMixedOffsets(),
        op.getMixedSizes(), op.getMixedStrides());
  if (c.wanted[1])
    c.operandGrads[1] = c.make<tensor::InsertSliceOp>(
        c.zero(op.getSourceType()), c.grads[0], op.getMixedOffsets(),
        op.getMixedSizes(), op.getMixedStrides());
  return success();
}

static SmallVector<OpFoldResult> sizesOf(OpBuilder &builder, Type type) {
  return getAsIndexOpFoldResult(builder.getContext(),
                                cast<RankedTensorType>(type).getShape());
}

static SmallVector<OpFoldResult> ones(OpBuilder &builder, Type type) {
  return SmallVector<OpFoldResult>(cast<RankedTensorType>(type).getRank(),
                                   builder.getIndexAttr(1));
}

static LogicalResult padVjp(tensor::PadOp op, VjpContext &c) {
  if (!op.getConstantPaddingValue())
    return op.emitOpError() << "expected a constant padding value: the "
                               "gradient of any other is not defined";
  if (c.wanted[0])
    c.operandGrads[0] = c.make<tensor::ExtractSliceOp>(
        op.getSourceType(), c.grads[0], op.getMixedLowPad(),
        sizesOf(c.builder, op.getSourceType()),
        ones(c.builder, op.getSourceType()));
  return success();
}

static LogicalResult concatVjp(tensor::ConcatOp op, VjpContext &c) {
  int64_t dim = op.getDim(), offset = 0;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    auto type = cast<RankedTensorType>(input.getType());
    SmallVector<OpFoldResult> offsets(type.getRank(),
                                      c.builder.getIndexAttr(0));
    offsets[dim] = c.builder.getIndexAttr(offset);
    offset += type.getDimSize(dim);
    if (c.wanted[i])
      c.operandGrads[i] = c.make<tensor::ExtractSliceOp>(
          type, c.grads[0], offsets, sizesOf(c.builder, type),
          ones(c.builder, type));
  }
  return success();
}

static LogicalResult splatVjp(tensor::SplatOp op, VjpContext &c) {
  c.operandGrads[0] =
      c.make<tensor::ExtractOp>(c.sumOfAll(c.grads[0]), ValueRange());
  return success();
}

void heddle::registerTensorVjps(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attachVjp<tensor::ExpandShapeOp, expandVjp>(context);
    attachVjp<tensor::CollapseShapeOp, collapseVjp>(context);
    attachVjp<tensor::CastOp, castVjp>(context);
    attachVjp<tensor::ExtractSliceOp, extractVjp>(context);
    attachVjp<tensor::InsertSliceOp, insertVjp>(context);
    attachVjp<tensor::PadOp, padVjp>(context);
    attachVjp<tensor::ConcatOp, concatVjp>(context);
    attachVjp<tensor::SplatOp, splatVjp>(context);
  });
}
