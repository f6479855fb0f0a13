//===- Shape.cpp - reduce, broadcast, transposition, slices -------===//

#include "Decomposer.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// A copy: result[i] = x at map(i).
static Value copy(Decomposer &d, RankedTensorType type, Value x,
                  AffineMap map) {
  return d.map(type, {{x, map}}, [](Body &, ValueRange v) { return v[0]; });
}

static bool decompose(ReduceOp op, Decomposer &d) {
  op.replaceAllUsesWith(d.reduceDims(op.getX(), op.getOver(), op.getKind(),
                                     cast<RankedTensorType>(op.getType())));
  return true;
}

static bool decompose(heddle::BroadcastOp op, Decomposer &d) {
  auto type = cast<RankedTensorType>(op.getType());
  op.replaceAllUsesWith(
      copy(d, type, op.getX(), d.dims(type.getRank(), op.getAlong())));
  return true;
}

static bool decompose(linalg::TransposeOp op, Decomposer &d) {
  auto type = dyn_cast<RankedTensorType>(op.getInit().getType());
  if (!type)
    return false;
  SmallVector<int64_t> position(type.getRank());
  for (auto [dim, from] : llvm::enumerate(op.getPermutation()))
    position[from] = dim;
  op->getResult(0).replaceAllUsesWith(
      copy(d, type, op.getInput(), d.dims(type.getRank(), position)));
  return true;
}

/// A slice that is contiguous in memory is a view; any other is copied.
static bool decompose(tensor::ExtractSliceOp op, Decomposer &d) {
  auto from = op.getSourceType();
  auto to = op.getType();
  ArrayRef<int64_t> offsets = op.getStaticOffsets();
  ArrayRef<int64_t> sizes = op.getStaticSizes();
  ArrayRef<int64_t> strides = op.getStaticStrides();
  if (ShapedType::isDynamicShape(offsets) || ShapedType::isDynamicShape(sizes))
    return false;
  bool isContiguous = true;
  // After the first dimension of more than one element all must be whole.
  bool sawRows = false;
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    if (strides[dim] != 1 && size != 1)
      isContiguous = false;
    if (sawRows && size != from.getDimSize(dim))
      isContiguous = false;
    sawRows |= size != 1;
  }
  if (isContiguous)
    return false;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  // A map's plain dimension means all rows, so the first rows of a dimension
  // need indices of their own.
  bool isPrefix = false;
  for (int64_t dim = 0; dim < from.getRank(); ++dim)
    isPrefix |= !dropped.test(dim) && offsets[dim] == 0 && strides[dim] == 1 &&
                sizes[dim] != from.getDimSize(dim);
  if (isPrefix) {
    op.replaceAllUsesWith(d.map(to, {}, [&](Body &b, ValueRange) {
      SmallVector<Value> indices;
      int64_t next = 0;
      for (int64_t dim = 0; dim < from.getRank(); ++dim) {
        Value index = b.integer(b.getIndexType(), offsets[dim]);
        if (!dropped.test(dim))
          index = b.create<arith::AddIOp>(
              b.create<arith::MulIOp>(
                  b.index(next++), b.integer(b.getIndexType(), strides[dim])),
              index);
        indices.push_back(index);
      }
      return b.convert(
          b.widen(b.create<tensor::ExtractOp>(op.getSource(), indices)),
          to.getElementType());
    }));
    return true;
  }
  SmallVector<AffineExpr> exprs;
  int64_t next = 0;
  for (int64_t dim = 0; dim < from.getRank(); ++dim) {
    AffineExpr expr = d.builder.getAffineConstantExpr(offsets[dim]);
    if (!dropped.test(dim))
      expr = d.builder.getAffineDimExpr(next++) * strides[dim] + offsets[dim];
    exprs.push_back(expr);
  }
  op.replaceAllUsesWith(
      copy(d, to, op.getSource(),
           AffineMap::get(to.getRank(), 0, exprs, d.builder.getContext())));
  return true;
}

/// result[i] = source[i - offsets] where that index is in the source, else
/// dest[i].
static bool decompose(tensor::InsertSliceOp op, Decomposer &d) {
  RankedTensorType type = op.getType();
  ArrayRef<int64_t> offsets = op.getStaticOffsets();
  ArrayRef<int64_t> sizes = op.getStaticSizes();
  if (ShapedType::isDynamicShape(offsets) ||
      ShapedType::isDynamicShape(sizes) || !op.hasUnitStride())
    return false;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  Value result = d.map(
      type, {{op.getDest(), d.identity(type.getRank())}},
      [&](Body &b, ValueRange v) {
        SmallVector<Value> indices;
        Value inside = b.integer(b.getI1Type(), 1);
        for (int64_t dim = 0; dim < type.getRank(); ++dim) {
          Value position = b.create<arith::SubIOp>(
              b.index(dim), b.integer(b.getIndexType(), offsets[dim]));
          // Unsigned: an index before the slice is a very large one.
          Value isIn =
              b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, position,
                                      b.integer(b.getIndexType(), sizes[dim]));
          inside = b.create<arith::AndIOp>(inside, isIn);
          Value zero = b.integer(b.getIndexType(), 0);
          if (!dropped.test(dim))
            indices.push_back(b.create<arith::SelectOp>(isIn, position, zero));
        }
        Value element =
            b.widen(b.create<tensor::ExtractOp>(op.getSource(), indices));
        Value picked =
            b.create<arith::SelectOp>(inside, element, b.widen(v[0]));
        return b.convert(picked, type.getElementType());
      });
  op.replaceAllUsesWith(result);
  return true;
}

static bool decompose(tensor::SplatOp op, Decomposer &d) {
  op.replaceAllUsesWith(
      d.map(cast<RankedTensorType>(op.getType()), {},
            [&](Body &, ValueRange) { return op.getInput(); }));
  return true;
}

bool lower::decomposeShape(Operation *op, OpBuilder &builder) {
  Decomposer d(builder, op->getLoc());
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<ReduceOp, heddle::BroadcastOp, linalg::TransposeOp,
            tensor::ExtractSliceOp, tensor::InsertSliceOp, tensor::SplatOp>(
          [&](auto typed) { return decompose(typed, d); })
      .Default(false);
}
