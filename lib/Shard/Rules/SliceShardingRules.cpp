//===- SliceShardingRules.cpp - Rules of slices and concatenations --------===//
//
// Rules of slices along a split dimension. The slice's rows may lie on few
// devices, or on devices other than those that need them. Gathering the whole
// tensor is avoided: rows are sent to the devices that need them (Windows.h).
// If the slice is small, or its place is known only at run time, each device
// instead contributes the rows that it holds.
//
//===----------------------------------------------------------------------===//

#include "Windows.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Shard/ShardingRuleModels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

using LocalResults = FailureOr<SmallVector<Value>>;

static RankedTensorType tensorTypeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Makes a tensor of `type` whose elements `body` computes from their
/// positions.
static Value
buildElements(OpBuilder &builder, Location loc, RankedTensorType type,
              ValueRange inputs,
              function_ref<Value(OpBuilder &, Location, ValueRange)> body) {
  Value empty = builder.create<tensor::EmptyOp>(loc, type.getShape(),
                                                type.getElementType());
  SmallVector<AffineMap> maps(inputs.size() + 1,
                              builder.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> parallel(type.getRank(),
                                            utils::IteratorType::parallel);
  return builder
      .create<linalg::GenericOp>(
          loc, type, inputs, empty, maps, parallel,
          [&](OpBuilder &b, Location at, ValueRange arguments) {
            b.create<linalg::YieldOp>(at, body(b, at, arguments));
          })
      .getResult(0);
}

static Value both(OpBuilder &b, Location at, Value one, Value other) {
  return one ? b.create<arith::AndIOp>(at, one, other).getResult() : other;
}

/// Returns whether 0 <= index < size. Compares unsigned numbers, so that a
/// negative index is too large.
static Value isBelow(OpBuilder &b, Location at, Value index, int64_t size) {
  return b.create<arith::CmpIOp>(at, arith::CmpIPredicate::ult, index,
                                 b.create<arith::ConstantIndexOp>(at, size));
}

static Value plus(OpBuilder &b, Location at, Value a, Value c) {
  return b.create<arith::AddIOp>(at, a, c);
}

static Value minus(OpBuilder &b, Location at, Value a, Value c) {
  return b.create<arith::SubIOp>(at, a, c);
}

static Value times(OpBuilder &b, Location at, Value a, int64_t factor) {
  if (factor == 1)
    return a;
  return b.create<arith::MulIOp>(at, a,
                                 b.create<arith::ConstantIndexOp>(at, factor));
}

namespace {

/// How a factor splits one dimension of the larger tensor: the source of an
/// extract_slice, the destination of an insert_slice.
enum class Span {
  Whole,  ///< the slice has the whole dimension, both are split alike
  Window, ///< both tensors are split, rows move between devices
  Masked, ///< the slice is whole, a device uses the rows that it holds
  None,   ///< the dimension must not be split
};

struct Dim {
  Span span = Span::None;
  unsigned factor = 0;
};

/// The factors of a slice that is taken from a larger tensor or put into one.
struct SliceLoops {
  ShardingRule rule;
  TensorFactors large, small;
  SmallVector<Dim> dims;

  SliceLoops(OffsetSizeAndStrideOpInterface slice, RankedTensorType largeType,
             RankedTensorType smallType, const llvm::SmallBitVector &dropped,
             bool isInserted) {
    bool isStatic = largeType.hasStaticShape() && smallType.hasStaticShape() &&
                    !ShapedType::isDynamicShape(slice.getStaticSizes()) &&
                    !ShapedType::isDynamicShape(slice.getStaticStrides());
    for (int64_t i = 0; i < largeType.getRank(); ++i) {
      int64_t rows = largeType.getDimSize(i);
      Dim dim;
      DimensionFactors factors;
      auto add = [&](Span span, int64_t size, FactorKind kind) {
        dim = {span, rule.addFactor("", size, kind)};
        factors = {dim.factor};
      };
      if (isWhole(slice, rows, i) && !dropped.test(i)) {
        add(Span::Whole, rows, FactorKind::Parallel);
      } else if (isStatic && rows > 1 && isWithin(slice, rows, i)) {
        int64_t size = slice.getStaticSize(i);
        if (!slice.isDynamicOffset(i) && !dropped.test(i) && size > 1 &&
            (!isInserted ||
             (slice.getStaticStride(i) == 1 && 2 * size >= rows))) {
          add(Span::Window, isInserted ? rows : size, FactorKind::Parallel);
          if (!isInserted)
            rule.factors.back().padding = PaddingRule::NeverZero;
        } else if (isInserted) {
          add(Span::Masked, rows, FactorKind::Parallel);
        } else if (canBeSummed(largeType, smallType)) {
          add(Span::Masked, rows, FactorKind::Sum);
          rule.factors.back().masksItself = true;
        }
      }
      dims.push_back(dim);
      large.push_back(factors);
      if (!dropped.test(i))
        small.push_back(dim.span == Span::Masked ? DimensionFactors()
                                                 : factors);
    }
    rule.keepsFinite = true;
    rule.defersPartialSums = true;
  }

  static bool isWhole(OffsetSizeAndStrideOpInterface slice, int64_t rows,
                      int64_t i) {
    return !slice.isDynamicOffset(i) && !slice.isDynamicSize(i) &&
           !slice.isDynamicStride(i) && slice.getStaticOffset(i) == 0 &&
           slice.getStaticStride(i) == 1 && slice.getStaticSize(i) == rows;
  }

  /// Returns whether the slice has rows and, if its offset is known, lies
  /// within the dimension.
  static bool isWithin(OffsetSizeAndStrideOpInterface slice, int64_t rows,
                       int64_t i) {
    int64_t size = slice.getStaticSize(i), stride = slice.getStaticStride(i);
    if (size < 1 || stride < 1 || size - 1 > (rows - 1) / stride)
      return false;
    if (slice.isDynamicOffset(i))
      return true;
    int64_t offset = slice.getStaticOffset(i);
    return offset >= 0 && offset < rows - (size - 1) * stride;
  }

  /// Returns whether devices may each fill in the rows that they hold and add
  /// up the results. The elements must be numbers. The slice must be at most
  /// half of the larger tensor, which would be gathered otherwise.
  static bool canBeSummed(RankedTensorType largeType,
                          RankedTensorType smallType) {
    Type element = smallType.getElementType();
    return element.isIntOrIndexOrFloat() && !element.isInteger(1) &&
           2 * smallType.getNumElements() <= largeType.getNumElements();
  }
};

/// The offsets, sizes and strides of a slice, with the dynamic ones as operands
/// on one device.
struct Places {
  SmallVector<OpFoldResult> offsets, sizes, strides;

  Places(OffsetSizeAndStrideOpInterface slice, ValueRange operands)
      : offsets(slice.getMixedOffsets()), sizes(slice.getMixedSizes()),
        strides(slice.getMixedStrides()) {
    for (auto i : llvm::seq<unsigned>(0, offsets.size())) {
      if (slice.isDynamicOffset(i))
        offsets[i] = operands[slice.getIndexOfDynamicOffset(i)];
      if (slice.isDynamicSize(i))
        sizes[i] = operands[slice.getIndexOfDynamicSize(i)];
      if (slice.isDynamicStride(i))
        strides[i] = operands[slice.getIndexOfDynamicStride(i)];
    }
  }

  Value getOffset(OpBuilder &b, Location at, unsigned i) const {
    return getValueOrCreateConstantIndexOp(b, at, offsets[i]);
  }
  int64_t getStride(unsigned i) const {
    return *getConstantIntValue(strides[i]);
  }
};

struct ExtractSliceModel
    : ShardingRuleOpInterface::ExternalModel<ExtractSliceModel,
                                             tensor::ExtractSliceOp> {
  static SliceLoops getLoops(tensor::ExtractSliceOp slice) {
    return SliceLoops(slice, slice.getSourceType(), slice.getType(),
                      slice.getDroppedDims(), /*isInserted=*/false);
  }

  ShardingRule getShardingRule(Operation *op) const {
    SliceLoops loops = getLoops(cast<tensor::ExtractSliceOp>(op));
    loops.rule.operands.resize(op->getNumOperands());
    loops.rule.operands[0] = loops.large;
    loops.rule.results = {loops.small};
    loops.rule.linear = {{{0}}};
    return loops.rule;
  }

  LocalResults localize(Operation *op, Localizer &localizer) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    SliceLoops loops = getLoops(slice);
    OpBuilder &builder = localizer.builder;
    Value source = localizer.operands[0];
    Places places(slice, localizer.operands);
    bool isMasked = false;
    for (auto [i, dim] : llvm::enumerate(loops.dims)) {
      if (dim.span == Span::Whole)
        places.sizes[i] =
            builder.getIndexAttr(tensorTypeOf(source).getDimSize(i));
      if (dim.span == Span::None || !localizer.isSplit(dim.factor))
        continue;
      isMasked |= dim.span == Span::Masked;
      if (dim.span != Span::Window)
        continue;
      int64_t stride = slice.getStaticStride(i),
              part = llvm::divideCeil(slice.getStaticSize(i),
                                      localizer.getDegree(dim.factor));
      source = fetchWindow(
          source, i, slice.getSourceType().getDimSize(i),
          {slice.getStaticOffset(i), stride * part, stride * (part - 1) + 1},
          localizer, dim.factor);
      places.offsets[i] = builder.getIndexAttr(0);
      places.sizes[i] = builder.getIndexAttr(part);
    }
    auto type = cast<RankedTensorType>(localizer.resultTypes[0]);
    if (isMasked)
      return SmallVector<Value>{
          findElements(slice, type, source, loops, places, localizer)};
    auto local = builder.create<tensor::ExtractSliceOp>(
        op->getLoc(), type, source, places.offsets, places.sizes,
        places.strides);
    local->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return SmallVector<Value>{local};
  }

private:
  /// Returns the slice with the elements that this device holds, and zeros
  /// elsewhere.
  static Value findElements(tensor::ExtractSliceOp slice, RankedTensorType type,
                            Value source, const SliceLoops &loops,
                            const Places &places, Localizer &localizer) {
    SmallVector<Value> firsts;
    for (const Dim &dim : loops.dims)
      firsts.push_back(dim.span == Span::Masked && localizer.isSplit(dim.factor)
                           ? localizer.getOffset(dim.factor)
                           : Value());
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    return buildElements(
        localizer.builder, slice.getLoc(), type, {},
        [&](OpBuilder &b, Location at, ValueRange) -> Value {
          Value zero = b.create<arith::ConstantIndexOp>(at, 0), isMine;
          SmallVector<Value> place;
          int64_t next = 0;
          for (auto [i, dim] : llvm::enumerate(loops.dims)) {
            Value row = zero;
            if (!dropped.test(i))
              row = b.create<linalg::IndexOp>(at, next++);
            if (dim.span != Span::Whole)
              row = plus(b, at, times(b, at, row, places.getStride(i)),
                         places.getOffset(b, at, i));
            if (firsts[i]) {
              row = minus(b, at, row, firsts[i]);
              Value isIn =
                  isBelow(b, at, row, tensorTypeOf(source).getDimSize(i));
              row = b.create<arith::SelectOp>(at, isIn, row, zero);
              isMine = both(b, at, isMine, isIn);
            }
            place.push_back(row);
          }
          Value element = b.create<tensor::ExtractOp>(at, source, place);
          Value nothing = b.create<arith::ConstantOp>(
              at, b.getZeroAttr(type.getElementType()));
          return b.create<arith::SelectOp>(at, isMine, element, nothing);
        });
  }
};

struct InsertSliceModel
    : ShardingRuleOpInterface::ExternalModel<InsertSliceModel,
                                             tensor::InsertSliceOp> {
  static SliceLoops getLoops(tensor::InsertSliceOp slice) {
    return SliceLoops(slice, slice.getDestType(), slice.getSourceType(),
                      slice.getDroppedDims(), /*isInserted=*/true);
  }

  ShardingRule getShardingRule(Operation *op) const {
    SliceLoops loops = getLoops(cast<tensor::InsertSliceOp>(op));
    loops.rule.operands.resize(op->getNumOperands());
    loops.rule.operands[0] = loops.small;
    loops.rule.operands[1] = loops.large;
    loops.rule.results = {loops.large};
    loops.rule.linear = {{{0, 1}}};
    return loops.rule;
  }

  LocalResults localize(Operation *op, Localizer &localizer) const {
    auto slice = cast<tensor::InsertSliceOp>(op);
    SliceLoops loops = getLoops(slice);
    OpBuilder &builder = localizer.builder;
    Location loc = op->getLoc();
    Value source = localizer.operands[0], dest = localizer.operands[1];
    Places places(slice, localizer.operands);
    Places slab = places; // the part of `dest` that is rewritten
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    bool isSplit = false;
    int64_t ahead = 0; // the next dimension of `source`
    for (auto [i, dim] : llvm::enumerate(loops.dims)) {
      int64_t part = tensorTypeOf(dest).getDimSize(i), from = ahead;
      ahead += !dropped.test(i);
      if (dim.span == Span::Whole)
        slab.sizes[i] = builder.getIndexAttr(part);
      if (dim.span == Span::Whole || dim.span == Span::None ||
          !localizer.isSplit(dim.factor))
        continue;
      isSplit = true;
      slab.offsets[i] = builder.getIndexAttr(0);
      slab.sizes[i] = builder.getIndexAttr(part);
      slab.strides[i] = builder.getIndexAttr(1);
      if (dim.span == Span::Window)
        source = fetchWindow(source, from, slice.getStaticSize(i),
                             {-slice.getStaticOffset(i), part, part}, localizer,
                             dim.factor);
    }
    Value rows = source;
    if (isSplit)
      rows = writeSlab(slice, source, dest, loops, places, slab, localizer);
    if (rows.getType() == dest.getType() && isSplit)
      return SmallVector<Value>{rows};
    auto local = builder.create<tensor::InsertSliceOp>(
        loc, rows, dest, slab.offsets, slab.sizes, slab.strides);
    local->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return SmallVector<Value>{local};
  }

private:
  /// Returns the new content of the slab, this device's part of `dest` after
  /// the insertion. The body reads `dest` by tensor.extract and not as an
  /// input, because `dest` may be undefined before (a loop fills it).
  static Value writeSlab(tensor::InsertSliceOp slice, Value source, Value dest,
                         const SliceLoops &loops, const Places &places,
                         const Places &slab, Localizer &localizer) {
    SmallVector<int64_t> shape;
    SmallVector<Value> firsts;
    for (auto [size, dim] : llvm::zip(slab.sizes, loops.dims)) {
      shape.push_back(*getConstantIntValue(size));
      bool moves = (dim.span == Span::Window || dim.span == Span::Masked) &&
                   localizer.isSplit(dim.factor);
      firsts.push_back(moves ? localizer.getOffset(dim.factor) : Value());
    }
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    auto body = [&](OpBuilder &b, Location at, ValueRange) -> Value {
      Value zero = b.create<arith::ConstantIndexOp>(at, 0), isIn;
      SmallVector<Value> from, to;
      for (auto [i, dim] : llvm::enumerate(loops.dims)) {
        Value row = b.create<linalg::IndexOp>(at, i);
        to.push_back(plus(b, at, times(b, at, row, slab.getStride(i)),
                          slab.getOffset(b, at, i)));
        if (firsts[i]) {
          int64_t size = slice.getStaticSize(i), stride = places.getStride(i);
          Value place = minus(b, at, plus(b, at, firsts[i], to.back()),
                              places.getOffset(b, at, i));
          Value isHere = isBelow(b, at, place, (size - 1) * stride + 1);
          if (dim.span == Span::Masked) {
            row = b.create<arith::SelectOp>(at, isHere, place, zero);
            if (stride != 1) {
              Value step = b.create<arith::ConstantIndexOp>(at, stride);
              Value left = b.create<arith::RemUIOp>(at, row, step);
              isHere = both(b, at, isHere,
                            b.create<arith::CmpIOp>(
                                at, arith::CmpIPredicate::eq, left, zero));
              row = b.create<arith::DivUIOp>(at, row, step);
            }
          }
          isIn = both(b, at, isIn, isHere);
        }
        if (!dropped.test(i))
          from.push_back(row);
      }
      Value before = b.create<tensor::ExtractOp>(at, dest, to);
      Value after = b.create<tensor::ExtractOp>(at, source, from);
      return b.create<arith::SelectOp>(at, isIn, after, before);
    };
    return buildElements(localizer.builder, slice.getLoc(),
                         tensorTypeOf(dest).clone(shape), {}, body);
  }
};

/// Concatenation. One factor of the result's size splits the joined dimension.
/// Each device fetches, from each operand, the rows that its part of the result
/// contains.
struct ConcatModel
    : ShardingRuleOpInterface::ExternalModel<ConcatModel, tensor::ConcatOp> {
  /// With more operands, selecting the source of each row takes too many
  /// comparisons.
  static constexpr unsigned kMostParts = 8;

  static bool canBeSplit(tensor::ConcatOp concat) {
    return concat.getNumOperands() <= kMostParts &&
           llvm::all_of(concat.getInputs(), [](Value input) {
             return tensorTypeOf(input).hasStaticShape();
           });
  }

  ShardingRule getShardingRule(Operation *op) const {
    auto concat = cast<tensor::ConcatOp>(op);
    RankedTensorType type = concat.getResultType();
    ShardingRule rule;
    TensorFactors dims;
    for (int64_t i = 0; i < type.getRank(); ++i) {
      DimensionFactors &factors = dims.emplace_back();
      bool isJoined = i == int64_t(concat.getDim());
      if (isJoined && !canBeSplit(concat))
        continue;
      factors.push_back(
          rule.addFactor("", type.getDimSize(i), FactorKind::Parallel));
      if (isJoined)
        rule.factors.back().padding = PaddingRule::NeverZero;
    }
    rule.operands.assign(op->getNumOperands(), dims);
    rule.results = {dims};
    LinearGroup all;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      all.operands.push_back(i);
    rule.linear = {all};
    rule.keepsFinite = true;
    rule.defersPartialSums = true;
    return rule;
  }

  LocalResults localize(Operation *op, Localizer &localizer) const {
    auto concat = cast<tensor::ConcatOp>(op);
    // Factor i splits dimension i for all dimensions up to the joined one.
    unsigned dim = concat.getDim();
    if (!canBeSplit(concat) || !localizer.isSplit(dim))
      return localizeByCloning(op, localizer);
    auto type = cast<RankedTensorType>(localizer.resultTypes[0]);
    int64_t part = type.getDimSize(dim), begin = 0;
    SmallVector<Value> windows;
    SmallVector<int64_t> ends;
    for (auto [input, local] :
         llvm::zip(concat.getInputs(), localizer.operands)) {
      int64_t size = tensorTypeOf(input).getDimSize(dim);
      windows.push_back(
          fetchWindow(local, dim, size, {-begin, part, part}, localizer, dim));
      ends.push_back(begin += size);
    }
    Value first = localizer.getOffset(dim);
    auto body = [&](OpBuilder &b, Location at, ValueRange rows) -> Value {
      Value row =
          plus(b, at, b.create<linalg::IndexOp>(at, dim).getResult(), first);
      Value picked = rows[windows.size() - 1];
      for (size_t i = windows.size() - 1; i-- > 0;)
        picked = b.create<arith::SelectOp>(at, isBelow(b, at, row, ends[i]),
                                           rows[i], picked);
      return picked;
    };
    return SmallVector<Value>{
        buildElements(localizer.builder, op->getLoc(), type, windows, body)};
  }
};

} // namespace

void heddle::registerSliceShardingRuleModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::ExtractSliceOp::attachInterface<ExtractSliceModel>(*context);
    tensor::InsertSliceOp::attachInterface<InsertSliceModel>(*context);
    tensor::ConcatOp::attachInterface<ConcatModel>(*context);
  });
}
