//===- TensorVjps.cpp - Gradients of tensor ops ---------------------------===//
//
// These ops only move elements, so their gradients move elements back.
//
//===----------------------------------------------------------------------===//

#include "UpstreamVjps.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

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

/// Returns the number of each gathered slice: its coordinates in row-major
/// order, as i32 and without the indices' last dimension.
static Value numbersOfSlices(tensor::GatherOp op, VjpContext &c) {
  RankedTensorType indices = op.getIndicesType();
  ArrayRef<int64_t> leading = indices.getShape().drop_back();
  // Ids have at least one dimension.
  SmallVector<int64_t> shape(leading);
  if (shape.empty())
    shape.push_back(1);
  auto type = RankedTensorType::get(shape, c.builder.getI32Type());
  Value number;
  for (auto [i, dim] : llvm::enumerate(op.getGatherDims())) {
    SmallVector<OpFoldResult> offsets(indices.getRank(),
                                      c.builder.getIndexAttr(0));
    offsets.back() = c.builder.getIndexAttr(i);
    SmallVector<int64_t> part(leading);
    part.push_back(1);
    auto partType = indices.clone(part);
    Value coordinate = c.make<tensor::ExtractSliceOp>(
        partType, op.getIndices(), offsets, sizesOf(c.builder, partType),
        ones(c.builder, partType));
    if (indices.getRank() > 1)
      coordinate = c.make<tensor::CollapseShapeOp>(
          indices.clone(shape), coordinate,
          *getReassociationIndicesForCollapse(part, shape));
    Type element = indices.getElementType();
    if (element.isIndex())
      coordinate = c.make<arith::IndexCastOp>(type, coordinate);
    else if (element.getIntOrFloatBitWidth() > 32)
      coordinate = c.make<arith::TruncIOp>(type, coordinate);
    else if (element.getIntOrFloatBitWidth() < 32)
      coordinate = c.make<arith::ExtSIOp>(type, coordinate);
    if (number)
      number = c.make<arith::AddIOp>(
          c.make<arith::MulIOp>(
              number, c.splat(type, op.getSourceType().getDimSize(dim))),
          coordinate);
    else
      number = coordinate;
  }
  return number;
}

/// Reshapes a tensor without moving elements, by way of one dimension.
static Value reshape(VjpContext &c, Value x, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(x.getType());
  if (type.getShape() == shape)
    return x;
  auto all = [](int64_t rank) {
    SmallVector<ReassociationIndices> groups;
    if (rank != 0)
      groups.push_back(llvm::to_vector<2>(llvm::seq<int64_t>(0, rank)));
    return groups;
  };
  Type flat = type.clone({type.getNumElements()});
  if (type.getRank() == 0)
    x = c.make<tensor::ExpandShapeOp>(flat, x, all(0));
  else if (type.getRank() != 1)
    x = c.make<tensor::CollapseShapeOp>(flat, x, all(type.getRank()));
  if (shape.size() == 1)
    return x;
  return c.make<tensor::ExpandShapeOp>(Type(type.clone(shape)), x,
                                       all(shape.size()));
}

// The slices are the rows of a table, whose gradient adds those of equal rows.
static LogicalResult gatherVjp(tensor::GatherOp op, VjpContext &c) {
  RankedTensorType source = op.getSourceType();
  ArrayRef<int64_t> gathered = op.getGatherDims();
  SmallVector<int64_t> order(gathered), front;
  for (int64_t dim : gathered)
    front.push_back(source.getDimSize(dim));
  int64_t rows = ShapedType::getNumElements(front), width = 1;
  if (rows > std::numeric_limits<int32_t>::max())
    return op.emitOpError()
           << "expected at most 2147483647 slices, whose numbers are i32, got "
           << rows << ": its gradient is not defined";
  for (int64_t dim = 0; dim < source.getRank(); ++dim)
    if (!llvm::is_contained(gathered, dim)) {
      order.push_back(dim);
      front.push_back(source.getDimSize(dim));
      width *= source.getDimSize(dim);
    }
  Value numbers = numbersOfSlices(op, c);
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(numbers.getType()).getShape());
  shape.push_back(width);
  Value table = c.make<EmbeddingGradOp>(
      source.clone({rows, width}), numbers, reshape(c, c.grads[0], shape),
      /*accumulate=*/Value(), /*offset=*/Value(), StringAttr());
  Value moved = reshape(c, table, front);
  if (llvm::is_sorted(order)) {
    c.operandGrads[0] = moved;
    return success();
  }
  Value init =
      c.make<tensor::EmptyOp>(source.getShape(), source.getElementType());
  c.operandGrads[0] =
      c.builder
          .create<linalg::TransposeOp>(c.loc, moved, init,
                                       invertPermutationVector(order))
          ->getResult(0);
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
    attachVjp<tensor::GatherOp, gatherVjp>(context);
  });
}
