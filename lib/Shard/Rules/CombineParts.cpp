//===- CombineParts.cpp - Reductions over devices -------------------------===//

#include "CombineParts.h"
#include "dialects/Interfaces/ScalarBodies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

bool heddle::isIdempotent(Operation *combiner) {
  return isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp,
             arith::MinUIOp, arith::AndIOp, arith::OrIOp>(combiner);
}

bool heddle::startsFromNumbers(linalg::LinalgOp op) {
  Value start = op.getDpsInitOperand(0)->get();
  if (auto fill = start.getDefiningOp<linalg::FillOp>())
    start = fill.value();
  Attribute constant;
  if (!matchPattern(start, m_Constant(&constant)))
    return false;
  if (auto elements = dyn_cast<SplatElementsAttr>(constant))
    constant = elements.getSplatValue<Attribute>();
  auto number = dyn_cast<FloatAttr>(constant);
  return number && !number.getValue().isNaN();
}

//===----------------------------------------------------------------------===//
// Extrema: a maximum over the devices
//===----------------------------------------------------------------------===//

static Value splat(OpBuilder &builder, Location loc, RankedTensorType type,
                   const APInt &value) {
  return builder.create<arith::ConstantOp>(loc,
                                           DenseElementsAttr::get(type, value));
}

/// Combines minima, integer extrema, and boolean `and` and `or` by a maximum
/// over the devices.
static Value combineExtrema(Value part, Operation *combiner,
                            Localizer &localizer, ArrayRef<unsigned> factors) {
  OpBuilder &builder = localizer.builder;
  Location loc = part.getLoc();
  auto reduceMax = [&](Value value) {
    for (unsigned factor : factors)
      value = localizer.allReduce(value, FactorKind::Max, factor);
    return value;
  };
  auto type = cast<RankedTensorType>(part.getType());
  if (isa<FloatType>(type.getElementType())) {
    Value negated = builder.create<arith::NegFOp>(loc, part);
    return builder.create<arith::NegFOp>(loc, reduceMax(negated));
  }
  bool isBit = type.getElementType().isInteger(1);
  bool isLeast = isa<arith::MinSIOp, arith::MinUIOp, arith::AndIOp>(combiner);
  bool isUnsigned = isa<arith::MinUIOp, arith::MaxUIOp>(combiner);
  // A maximum over devices compares signed numbers of whole bytes. So an i1 is
  // widened to i32. Flipping the sign bit maps the order of unsigned numbers to
  // that of signed ones. Flipping all bits reverses the order, which makes a
  // minimum a maximum.
  auto wide = isBit ? type.clone(builder.getI32Type()) : type;
  unsigned width = wide.getElementTypeBitWidth();
  APInt flips = isLeast ? APInt::getAllOnes(width) : APInt::getZero(width);
  if (isUnsigned && !isBit)
    flips ^= APInt::getSignMask(width);
  Value value = part;
  if (isBit)
    value = builder.create<arith::ExtUIOp>(loc, wide, value);
  auto flip = [&](Value bits) -> Value {
    if (flips.isZero())
      return bits;
    return builder.create<arith::XOrIOp>(loc, bits,
                                         splat(builder, loc, wide, flips));
  };
  value = flip(reduceMax(flip(value)));
  if (isBit)
    value = builder.create<arith::TruncIOp>(loc, type, value);
  return value;
}

//===----------------------------------------------------------------------===//
// Other reductions: part by part
//===----------------------------------------------------------------------===//

/// Reduces the devices' parts along the factors, in the order of the devices.
/// `combine` gets the result of all earlier devices and the part of the next
/// device.
static SmallVector<Value>
foldParts(ValueRange parts, Localizer &localizer, ArrayRef<unsigned> factors,
          function_ref<SmallVector<Value>(ValueRange, ValueRange)> combine) {
  SmallVector<Value> all(parts);
  // Minor factors come first, so that the parts of the major ones are in order.
  for (unsigned factor : llvm::reverse(factors)) {
    int64_t degree = localizer.getDegree(factor);
    SmallVector<Value> folded;
    for (int64_t device = 0; device < degree; ++device) {
      SmallVector<int64_t> sources(degree, device);
      SmallVector<Value> next;
      for (Value part : all)
        next.push_back(localizer.permute(part, sources, factor));
      folded = device == 0 ? next : combine(folded, next);
    }
    all = folded;
  }
  return all;
}

/// Creates the elementwise tensor form of the scalar op `scalar`.
static Value createOnTensors(OpBuilder &builder, Operation *scalar,
                             ValueRange operands) {
  auto shape = cast<RankedTensorType>(operands.back().getType());
  Operation *op = builder.clone(*scalar);
  op->setOperands(operands);
  op->getResult(0).setType(shape.clone(scalar->getResult(0).getType()));
  return op->getResult(0);
}

Value heddle::combineParts(Value part, Operation *combiner,
                           Localizer &localizer, ArrayRef<unsigned> factors) {
  bool isBit = combiner->getResult(0).getType().isInteger(1);
  bool isExtremum =
      isa<arith::MinimumFOp, arith::MaxUIOp, arith::MinUIOp>(combiner) ||
      (isa<arith::MinNumFOp>(combiner) &&
       startsFromNumbers(cast<linalg::LinalgOp>(combiner->getParentOp()))) ||
      (isa<arith::MinSIOp>(combiner) && !isBit) ||
      (isa<arith::OrIOp, arith::AndIOp>(combiner) && isBit);
  if (isExtremum)
    return combineExtrema(part, combiner, localizer, factors);
  return foldParts(
      part, localizer, factors, [&](ValueRange before, ValueRange next) {
        return SmallVector<Value>{
            createOnTensors(localizer.builder, combiner, {before[0], next[0]})};
      })[0];
}

SmallVector<Value> heddle::combineParts(ValueRange parts, linalg::LinalgOp op,
                                        Localizer &localizer,
                                        ArrayRef<unsigned> factors) {
  std::optional<Choice> choice = findChoice(op);
  ArrayRef<BlockArgument> accumulators = op.getRegionOutputArgs();
  return foldParts(
      parts, localizer, factors, [&](ValueRange before, ValueRange next) {
        // Two results may take the same value, but each has an accumulator of
        // its own. So the operands are given to `create`, not looked up by the
        // value that they replace.
        auto create = [&](Operation *scalar, ArrayRef<Value> operands) {
          return createOnTensors(localizer.builder, scalar, operands);
        };
        Value more;
        SmallVector<Value> results;
        for (auto [i, accumulator] : llvm::enumerate(accumulators)) {
          Operation *comparison = choice->comparison;
          bool isFirst = comparison->getOperand(0) == accumulator;
          if (!isFirst && comparison->getOperand(1) != accumulator)
            continue;
          more = isFirst ? create(comparison, {before[i], next[i]})
                         : create(comparison, {next[i], before[i]});
        }
        for (auto [i, result] : llvm::enumerate(choice->results))
          results.push_back(isa<arith::SelectOp>(result)
                                ? create(result, {more, next[i], before[i]})
                                : create(result, {before[i], next[i]}));
        return results;
      });
}

Value heddle::startOnce(Value accumulator, TypedAttr neutral,
                        Localizer &localizer, ArrayRef<unsigned> factors) {
  SmallVector<Value> indices;
  for (unsigned factor : factors)
    indices.push_back(localizer.getIndex(factor));
  return mapElements(localizer.builder, accumulator.getLoc(), accumulator,
                     [&](OpBuilder &b, Location at, Value element) {
                       Value zero = b.create<arith::ConstantIndexOp>(at, 0);
                       Value nothing = b.create<arith::ConstantOp>(at, neutral);
                       for (Value index : indices) {
                         Value isFirst = b.create<arith::CmpIOp>(
                             at, arith::CmpIPredicate::eq, index, zero);
                         element = b.create<arith::SelectOp>(at, isFirst,
                                                             element, nothing);
                       }
                       return element;
                     });
}
