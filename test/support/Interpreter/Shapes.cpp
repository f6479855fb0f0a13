//===- Shapes.cpp - Reductions and the moving of elements -----------------===//

#include "Evaluation.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>

using namespace mlir;
using namespace heddle;

static bool evaluateReduce(ReduceOp op, Evaluation &e) {
  const Tensor &x = e.operand(0);
  Tensor &result = e.result();
  bool isMax = op.getKind() == ReductionKind::Max;
  if (isMax)
    std::fill(result.values.begin(), result.values.end(), -INFINITY);
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> to;
    for (auto [d, i] : llvm::enumerate(index))
      if (!llvm::is_contained(op.getOver(), int64_t(d)))
        to.push_back(i);
    double &sum = result.at(to);
    sum = isMax ? std::max(sum, x.at(index)) : sum + x.at(index);
  });
  return true;
}

static bool evaluateBroadcast(BroadcastOp op, Evaluation &e) {
  forEachIndex(e.result().shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from;
    for (int64_t d : op.getAlong())
      from.push_back(index[d]);
    e.result().at(index) = e.operand(0).at(from);
  });
  return true;
}

static bool evaluateUnstack(Evaluation &e) {
  auto from = e.operand(0).values.begin();
  for (Tensor *slice : e.results) {
    std::copy(from, from + slice->size(), slice->values.begin());
    from += slice->size();
  }
  return true;
}

static bool evaluateStack(Evaluation &e) {
  auto to = e.result().values.begin();
  for (const Tensor *slice : e.operands)
    to = llvm::copy(slice->values, to);
  return true;
}

static bool isWithin(const Tensor &tensor, ArrayRef<int64_t> index) {
  return llvm::all_of(llvm::zip(tensor.shape, index), [](auto pair) {
    return std::get<1>(pair) >= 0 && std::get<1>(pair) < std::get<0>(pair);
  });
}

static bool errorOutside(Evaluation &e) {
  return e.fail("reaches beyond the end of its tensor");
}

/// Calls `visit` with the index in `tensor` of each element of a slice, in
/// row-major order. Returns false if the slice's sizes or strides are dynamic.
/// (If the slice's type lacks dimensions of size 1, the order is the same.)
static bool forEachInSlice(OffsetSizeAndStrideOpInterface op,
                           const Tensor &tensor, Evaluation &e,
                           function_ref<void(ArrayRef<int64_t>)> visit) {
  if (!op.getSizes().empty() || !op.getStrides().empty())
    return false;
  SmallVector<int64_t> offsets(op.getStaticOffsets());
  auto dynamic = op.getOffsets().begin();
  for (int64_t &offset : offsets)
    if (ShapedType::isDynamic(offset))
      offset = int64_t(e[*dynamic++].values[0]);
  SmallVector<int64_t> last(offsets);
  for (auto [place, size, stride] :
       llvm::zip(last, op.getStaticSizes(), op.getStaticStrides()))
    if (int64_t way; llvm::MulOverflow(size - 1, stride, way) ||
                     llvm::AddOverflow(place, way, place))
      place = -1;
  if (!llvm::is_contained(op.getStaticSizes(), 0) &&
      (!isWithin(tensor, offsets) || !isWithin(tensor, last)))
    return errorOutside(e);
  forEachIndex(op.getStaticSizes(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> place;
    for (auto [d, i] : llvm::enumerate(index))
      place.push_back(offsets[d] + i * op.getStaticStrides()[d]);
    visit(place);
  });
  return true;
}

static bool evaluateExtractSlice(tensor::ExtractSliceOp op, Evaluation &e) {
  auto to = e.result().values.begin();
  return forEachInSlice(op, e.operand(0), e, [&](ArrayRef<int64_t> place) {
    *to++ = e.operand(0).at(place);
  });
}

static bool evaluateInsertSlice(tensor::InsertSliceOp op, Evaluation &e) {
  auto from = e.operand(0).values.begin();
  e.result() = e.operand(1);
  return forEachInSlice(op, e.operand(1), e, [&](ArrayRef<int64_t> place) {
    e.result().at(place) = *from++;
  });
}

static bool evaluateInsert(tensor::InsertOp op, Evaluation &e) {
  e.result() = e.operand(1);
  SmallVector<int64_t> place;
  for (Value index : op.getIndices())
    place.push_back(int64_t(e[index].values[0]));
  if (!isWithin(e.result(), place))
    return errorOutside(e);
  e.result().at(place) = e.operand(0).values[0];
  return true;
}

static bool evaluatePad(tensor::PadOp op, Evaluation &e) {
  Value padding = op.getConstantPaddingValue();
  Attribute constant;
  if (!padding || !op.getLow().empty() || !op.getHigh().empty())
    return false;
  double value = 0;
  if (!matchPattern(padding, m_Constant(&constant))) {
    value = e[padding].values[0];
  } else if (auto number = dyn_cast<FloatAttr>(constant)) {
    value = number.getValueAsDouble();
  } else {
    APInt bits = cast<IntegerAttr>(constant).getValue();
    value = bits.getBitWidth() == 1 ? double(bits.getZExtValue())
                                    : double(bits.getSExtValue());
  }
  std::fill(e.result().values.begin(), e.result().values.end(), value);
  forEachIndex(e.operand(0).shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> to;
    for (auto [d, i] : llvm::enumerate(index))
      to.push_back(i + op.getStaticLow()[d]);
    e.result().at(to) = e.operand(0).at(index);
  });
  return true;
}

static bool evaluateConcat(tensor::ConcatOp op, Evaluation &e) {
  int64_t dim = op.getDim(), offset = 0;
  for (const Tensor *input : e.operands) {
    forEachIndex(input->shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> to(index);
      to[dim] += offset;
      e.result().at(to) = input->at(index);
    });
    offset += input->shape[dim];
  }
  return true;
}

static bool evaluateTranspose(linalg::TransposeOp op, Evaluation &e) {
  forEachIndex(e.result().shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from(index.size());
    for (auto [d, source] : llvm::enumerate(op.getPermutation()))
      from[source] = index[d];
    e.result().at(index) = e.operand(0).at(from);
  });
  return true;
}

/// The lowest finite number of an element type.
static double lowestOf(Type element) {
  if (auto type = dyn_cast<FloatType>(element))
    return APFloat::getLargest(type.getFloatSemantics(), /*Negative=*/true)
        .convertToDouble();
  return double(
      APInt::getSignedMinValue(element.getIntOrFloatBitWidth()).getSExtValue());
}

static bool evaluateExtract(Evaluation &e) {
  SmallVector<int64_t> index;
  for (const Tensor *i : llvm::drop_begin(e.operands))
    index.push_back(i->values[0]);
  if (!isWithin(e.operand(0), index))
    return errorOutside(e);
  e.result().values[0] = e.operand(0).at(index);
  return true;
}

/// Writes the gathered slices one after the other, in the order of the indices.
/// (If the result's type lacks dimensions of size 1, the order is the same.)
static bool evaluateGather(tensor::GatherOp op, Evaluation &e) {
  const Tensor &source = e.operand(0), &indices = e.operand(1);
  ArrayRef<int64_t> gathered = op.getGatherDims();
  SmallVector<int64_t> slice = source.shape;
  for (int64_t dim : gathered)
    slice[dim] = 1;
  auto to = e.result().values.begin();
  for (int64_t row = 0; row < indices.rows(); ++row) {
    SmallVector<int64_t> begin(slice.size(), 0);
    for (auto [i, dim] : llvm::enumerate(gathered))
      begin[dim] = indices.values[row * indices.last() + i];
    if (!isWithin(source, begin))
      return errorOutside(e);
    forEachIndex(slice, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> from(begin);
      for (auto [place, i] : llvm::zip(from, index))
        place += i;
      *to++ = source.at(from);
    });
  }
  return true;
}

static bool evaluateSoftmax(linalg::SoftmaxOp op, Evaluation &e) {
  const Tensor &x = e.operand(0);
  int64_t dim = op.getDimension();
  SmallVector<int64_t> rows = x.shape;
  rows[dim] = 1;
  forEachIndex(rows, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index);
    auto forEach = [&](auto body) {
      for (at[dim] = 0; at[dim] < x.shape[dim]; ++at[dim])
        body(x.at(at), e.result().at(at));
    };
    double largest = -INFINITY, sum = 0;
    forEach([&](double v, double &) { largest = std::max(largest, v); });
    forEach([&](double v, double &) { sum += std::exp(v - largest); });
    forEach([&](double v, double &result) {
      result = std::exp(v - largest) / sum;
    });
  });
  return true;
}

static bool evaluateMaskPadding(MaskPaddingOp op, Evaluation &e) {
  double lowest = lowestOf(op.getType().getElementType());
  double value = op.getValue() == PaddingValue::Zero ? 0 : lowest;
  forEachIndex(e.result().shape, [&](ArrayRef<int64_t> index) {
    bool isPadding = false;
    for (auto [i, dim] : llvm::enumerate(op.getDims()))
      isPadding |=
          index[dim] + e[op.getOffsets()[i]].values[0] >= op.getSizes()[i];
    e.result().at(index) = isPadding ? value : e.operand(0).at(index);
  });
  return true;
}

static bool evaluateBarrier(Evaluation &e) {
  for (auto [result, value] : llvm::zip(e.results, e.operands))
    result->values = value->values;
  return true;
}

bool heddle::evaluateShape(Evaluation &e) {
  auto copy = [&](Operation *) {
    e.result().values = e.operand(0).values;
    return true;
  };
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](ReduceOp op) { return evaluateReduce(op, e); })
      .Case([&](BroadcastOp op) { return evaluateBroadcast(op, e); })
      .Case([&](UnstackOp) { return evaluateUnstack(e); })
      .Case([&](StackOp) { return evaluateStack(e); })
      .Case([&](BarrierOp) { return evaluateBarrier(e); })
      .Case([&](MaskPaddingOp op) { return evaluateMaskPadding(op, e); })
      .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp,
            ReshardOp>(copy)
      .Case([&](tensor::ExtractSliceOp op) {
        return evaluateExtractSlice(op, e);
      })
      .Case(
          [&](tensor::InsertSliceOp op) { return evaluateInsertSlice(op, e); })
      .Case([&](tensor::InsertOp op) { return evaluateInsert(op, e); })
      .Case([&](tensor::PadOp op) { return evaluatePad(op, e); })
      .Case([&](tensor::ConcatOp op) { return evaluateConcat(op, e); })
      .Case([&](tensor::EmptyOp) { return true; })
      .Case([&](tensor::ExtractOp) { return evaluateExtract(e); })
      .Case([&](tensor::GatherOp op) { return evaluateGather(op, e); })
      .Case([&](linalg::SoftmaxOp op) { return evaluateSoftmax(op, e); })
      .Case([&](tensor::FromElementsOp) {
        for (auto [place, element] : llvm::zip(e.result().values, e.operands))
          place = element->values[0];
        return true;
      })
      .Case<tensor::SplatOp, linalg::FillOp>([&](Operation *) {
        std::fill(e.result().values.begin(), e.result().values.end(),
                  e.operand(0).values[0]);
        return true;
      })
      .Case([&](linalg::TransposeOp op) { return evaluateTranspose(op, e); })
      .Default(false);
}
