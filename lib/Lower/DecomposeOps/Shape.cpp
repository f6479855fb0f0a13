//===- Shape.cpp - reduce, broadcast, transposition, slices -------===//

#include "../PlanArenas/ProgramBuffers.h"
#include "Decomposer.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Builds a copy: result[i] = x at map(i).
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

/// Copies a slice, unless it is contiguous in memory and so can be a view.
static bool decompose(tensor::ExtractSliceOp op, Decomposer &d) {
  auto from = op.getSourceType();
  auto to = op.getType();
  ArrayRef<int64_t> offsets = op.getStaticOffsets();
  ArrayRef<int64_t> sizes = op.getStaticSizes();
  ArrayRef<int64_t> strides = op.getStaticStrides();
  if (ShapedType::isDynamicShape(strides) || ShapedType::isDynamicShape(sizes))
    return false;
  // An offset may be computed at run time, such as the offset of a device's own
  // slice.
  bool movesAtRunTime = ShapedType::isDynamicShape(offsets);
  bool isContiguous = !movesAtRunTime;
  // After the first dimension with more than one element, a contiguous slice
  // takes every dimension whole.
  bool sawRows = false;
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    if (strides[dim] != 1 && size != 1)
      isContiguous = false;
    if (sawRows && size != from.getDimSize(dim))
      isContiguous = false;
    sawRows |= size != 1;
  }
  if (isContiguous) {
    if (op.hasUnitStride())
      return false;
    // Along a dimension of one element, any step gives the same slice. Sets the
    // step to 1.
    SmallVector<OpFoldResult> ones(from.getRank(), d.builder.getIndexAttr(1));
    op.replaceAllUsesWith(
        d.builder
            .create<tensor::ExtractSliceOp>(d.loc, to, op.getSource(),
                                            op.getMixedOffsets(),
                                            op.getMixedSizes(), ones)
            .getResult());
    return true;
  }
  llvm::SmallBitVector dropped = op.getDroppedDims();
  // If a loop's index alone selects along a dimension (d0, not d0 + 1), linalg
  // takes the loop to run over the whole dimension. So a slice of the first
  // rows computes its indices in the body, and so does a slice at a run-time
  // offset.
  bool isPrefix = movesAtRunTime;
  SmallVector<OpFoldResult> mixed = op.getMixedOffsets();
  for (int64_t dim = 0; dim < from.getRank(); ++dim)
    isPrefix |= !dropped.test(dim) && offsets[dim] == 0 && strides[dim] == 1 &&
                sizes[dim] != from.getDimSize(dim);
  if (isPrefix) {
    op.replaceAllUsesWith(d.map(to, {}, [&](Body &b, ValueRange) {
      SmallVector<Value> indices;
      int64_t next = 0;
      for (int64_t dim = 0; dim < from.getRank(); ++dim) {
        Value index = dyn_cast<Value>(mixed[dim]);
        if (!index)
          index = b.integer(b.getIndexType(), offsets[dim]);
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

/// Computes result[i] = source[(i - offsets) / strides] where this position
/// lies in the source, else dest[i].
static bool decompose(tensor::InsertSliceOp op, Decomposer &d) {
  RankedTensorType type = op.getType();
  SmallVector<OpFoldResult> offsets = op.getMixedOffsets();
  ArrayRef<int64_t> sizes = op.getStaticSizes();
  ArrayRef<int64_t> strides = op.getStaticStrides();
  if (ShapedType::isDynamicShape(sizes) || ShapedType::isDynamicShape(strides))
    return false;
  if (llvm::is_contained(sizes, 0)) {
    op.replaceAllUsesWith(op.getDest());
    return true;
  }
  llvm::SmallBitVector dropped = op.getDroppedDims();
  Value dest = op.getDest();
  // A loop fills an empty tensor slice by slice. Its elements are undefined
  // before that, so zeros are right.
  if (dest.getDefiningOp<tensor::EmptyOp>()) {
    OpBuilder builder(op);
    dest = builder.create<arith::ConstantOp>(op.getLoc(),
                                             builder.getZeroAttr(type));
  }
  Value result = d.map(
      type, {{dest, d.identity(type.getRank())}}, [&](Body &b, ValueRange v) {
        SmallVector<Value> indices;
        Value inside = b.integer(b.getI1Type(), 1);
        for (int64_t dim = 0; dim < type.getRank(); ++dim) {
          auto offset = dyn_cast<Value>(offsets[dim]);
          if (!offset)
            offset = b.integer(b.getIndexType(), op.getStaticOffset(dim));
          Value position = b.create<arith::SubIOp>(b.index(dim), offset);
          // Unsigned, so that an index before the slice is very large.
          int64_t length = (sizes[dim] - 1) * strides[dim] + 1;
          Value isIn =
              b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, position,
                                      b.integer(b.getIndexType(), length));
          inside = b.create<arith::AndIOp>(inside, isIn);
          Value zero = b.integer(b.getIndexType(), 0);
          Value index = b.create<arith::SelectOp>(isIn, position, zero);
          if (strides[dim] != 1) {
            Value stride = b.integer(b.getIndexType(), strides[dim]);
            inside = b.create<arith::AndIOp>(
                inside, b.create<arith::CmpIOp>(
                            arith::CmpIPredicate::eq,
                            b.create<arith::RemUIOp>(index, stride), zero));
            index = b.create<arith::DivUIOp>(index, stride);
          }
          if (!dropped.test(dim))
            indices.push_back(index);
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

/// Concatenates parts of equal type. The parts are computed in place in a
/// stack, which is then transposed: result[.., k, i, ..] = stack[k, .., i, ..].
static Value concatAlike(Decomposer &d, ValueRange parts, int64_t dim) {
  if (parts.size() == 1)
    return parts[0];
  auto part = cast<RankedTensorType>(parts[0].getType());
  int64_t count = parts.size(), rank = part.getRank();
  SmallVector<int64_t> shape = {count};
  llvm::append_range(shape, part.getShape());
  Value stack =
      d.builder.create<StackOp>(d.loc, part.clone(shape), parts, StringAttr());
  SmallVector<int64_t> expanded(part.getShape());
  expanded.insert(expanded.begin() + dim, count);
  SmallVector<int64_t> positions = {dim};
  for (int64_t i = 0; i <= rank; ++i)
    if (i != dim)
      positions.push_back(i);
  // If all dimensions before `dim` have one element, the stack has the result's
  // order in memory.
  bool isInOrder = llvm::all_of(part.getShape().take_front(dim),
                                [](int64_t size) { return size == 1; });
  SmallVector<int64_t> result(part.getShape());
  result[dim] *= count;
  if (isInOrder) {
    SmallVector<ReassociationIndices> flat(1);
    for (int64_t i = 0; i <= rank; ++i)
      flat[0].push_back(i);
    Value line = d.builder.create<tensor::CollapseShapeOp>(d.loc, stack, flat);
    flat[0].pop_back();
    return d.builder.create<tensor::ExpandShapeOp>(d.loc, part.clone(result),
                                                   line, flat);
  }
  Value moved =
      copy(d, part.clone(expanded), stack, d.dims(rank + 1, positions));
  SmallVector<ReassociationIndices> groups;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t from = i <= dim ? i : i + 1;
    groups.push_back(i == dim ? ReassociationIndices{from, from + 1}
                              : ReassociationIndices{from});
  }
  return d.builder.create<tensor::CollapseShapeOp>(d.loc, part.clone(result),
                                                   moved, groups);
}

/// Keeps a concatenation if its parts follow each other in memory and differ in
/// type: these parts are computed in place. Otherwise first joins each run of
/// adjacent parts of equal type. If more than one run remains, selects each
/// element from its run.
static bool decompose(tensor::ConcatOp op, Decomposer &d) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t dim = op.getDim(), rank = type.getRank();
  if (!type.hasStaticShape())
    return false;
  if (isJoin(op) && !llvm::all_equal(op.getInputs().getTypes()))
    return false;
  SmallVector<Value> runs;
  OperandRange inputs = op.getInputs();
  for (size_t first = 0; first < inputs.size();) {
    size_t next = first + 1;
    while (next < inputs.size() &&
           inputs[next].getType() == inputs[first].getType())
      ++next;
    runs.push_back(
        concatAlike(d, ValueRange(inputs.slice(first, next - first)), dim));
    first = next;
  }
  if (runs.size() == 1) {
    op.replaceAllUsesWith(runs[0]);
    return true;
  }
  Value result = d.map(type, {}, [&](Body &b, ValueRange) {
    Value picked;
    int64_t offset = 0;
    for (Value run : runs) {
      SmallVector<Value> indices;
      for (int64_t i = 0; i < rank; ++i)
        indices.push_back(b.index(i));
      int64_t size = cast<RankedTensorType>(run.getType()).getDimSize(dim);
      Value position = b.create<arith::SubIOp>(
          b.index(dim), b.integer(b.getIndexType(), offset));
      // Unsigned, so that an index before the run is very large.
      Value isIn = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, position,
                                           b.integer(b.getIndexType(), size));
      indices[dim] = b.create<arith::SelectOp>(isIn, position,
                                               b.integer(b.getIndexType(), 0));
      Value element = b.widen(b.create<tensor::ExtractOp>(run, indices));
      picked =
          picked ? b.create<arith::SelectOp>(isIn, element, picked).getResult()
                 : element;
      offset += size;
    }
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
            tensor::ExtractSliceOp, tensor::InsertSliceOp, tensor::ConcatOp,
            tensor::SplatOp>([&](auto typed) { return decompose(typed, d); })
      .Default(false);
}
