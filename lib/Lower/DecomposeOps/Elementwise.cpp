//===- Elementwise.cpp - arith, math, activations, dropout, rotary --------===//

#include "../KernelPlan/RandomStream.h"
#include "Decomposer.h"
#include "Philox.h"
#include "heddle/Lower/StreamId.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

//===----------------------------------------------------------------------===//
// Upstream elementwise ops on tensors
//===----------------------------------------------------------------------===//

static bool decomposeMappable(Operation *op, Decomposer &d) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !OpTrait::hasElementwiseMappableTraits(op))
    return false;
  SmallVector<Operand> operands;
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      operands.push_back({operand, d.identity(type.getRank())});
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (op->getInherentAttr(attribute.getName()))
      attributes.push_back(attribute);
  Value result = d.map(type, operands, [&](Body &b, ValueRange v) {
    SmallVector<Value> scalars;
    unsigned next = 0;
    for (Value operand : op->getOperands())
      scalars.push_back(isa<RankedTensorType>(operand.getType()) ? v[next++]
                                                                 : operand);
    return b
        .OpBuilder::create(op->getLoc(), op->getName().getIdentifier(), scalars,
                           type.getElementType(), attributes)
        ->getResult(0);
  });
  op->getResult(0).replaceAllUsesWith(result);
  return true;
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

/// Replaces an elementwise op by `body` on each element. Arguments narrower
/// than f32 are widened for `body`.
static void mapFloats(Operation *op, Decomposer &d, Decomposer::MapBody body) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<Operand> operands;
  for (Value operand : op->getOperands())
    operands.push_back({operand, d.identity(type.getRank())});
  Value result = d.map(type, operands, [&](Body &b, ValueRange v) {
    SmallVector<Value> wide;
    for (Value value : v)
      wide.push_back(b.widen(value));
    return b.convert(body(b, wide), type.getElementType());
  });
  op->getResult(0).replaceAllUsesWith(result);
}

// The tanh form of GELU takes one exponential:
// 0.5 (1 + tanh u) = 1 / (1 + exp(-2 u)).
static constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
static constexpr double kCubic = 0.044715;
static constexpr double kRootHalf = 0.7071067811865476;
static constexpr double kInverseRootTwoPi = 0.3989422804014327;

/// Returns 2 u = 2 sqrt(2/pi) (x + 0.044715 x^3).
static Value twiceU(Body &b, Value x) {
  Value square = b.mul(x, x);
  return b.mul(
      x, b.add(b.mul(square, kTwoRootTwoOverPi * kCubic), kTwoRootTwoOverPi));
}

/// Returns the cumulative distribution function of the normal distribution.
static Value normalCdf(Body &b, Value x) {
  return b.mul(b.add(b.create<math::ErfOp>(b.mul(x, kRootHalf)), 1.0), 0.5);
}

static void decompose(GeluOp op, Decomposer &d) {
  mapFloats(op, d, [&](Body &b, ValueRange v) {
    Value x = v[0];
    if (op.getApproximate() == GeluApproximation::None)
      return b.mul(x, normalCdf(b, x));
    return b.div(x, b.add(b.exp(b.neg(twiceU(b, x))), 1.0));
  });
}

static void decompose(GeluGradOp op, Decomposer &d) {
  mapFloats(op, d, [&](Body &b, ValueRange v) {
    Value x = v[0], slope;
    if (op.getApproximate() == GeluApproximation::None) {
      Value density = b.mul(b.exp(b.mul(b.mul(x, x), -0.5)), kInverseRootTwoPi);
      slope = b.add(normalCdf(b, x), b.mul(x, density));
    } else {
      // The slope is s + x s (1 - s) (2u)' with s = sigmoid(2u).
      Value s = b.sigmoid(twiceU(b, x));
      Value inner = b.add(b.mul(b.mul(x, x), 3 * kTwoRootTwoOverPi * kCubic),
                          kTwoRootTwoOverPi);
      Value rest = b.mul(b.mul(x, s), b.mul(inner, b.add(b.neg(s), 1.0)));
      slope = b.add(s, rest);
    }
    return b.mul(slope, v[1]);
  });
}

static void decompose(SiluOp op, Decomposer &d) {
  mapFloats(op, d, [&](Body &b, ValueRange v) {
    return b.div(v[0], b.add(b.exp(b.neg(v[0])), 1.0));
  });
}

static void decompose(SiluGradOp op, Decomposer &d) {
  mapFloats(op, d, [&](Body &b, ValueRange v) {
    Value s = b.sigmoid(v[0]);
    Value slope = b.mul(s, b.add(b.mul(v[0], b.add(b.neg(s), 1.0)), 1.0));
    return b.mul(slope, v[1]);
  });
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

static void decompose(DropoutOp op, Decomposer &d) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t rank = type.getRank();
  ArrayRef<int64_t> global =
      op.getGlobalShape() ? *op.getGlobalShape() : type.getShape();
  double rate = op.getRate().convertToDouble();
  auto stepType = op.getStep().getType();
  SmallVector<AffineExpr> zeros(stepType.getRank(),
                                d.builder.getAffineConstantExpr(0));
  AffineMap stepMap = AffineMap::get(rank, 0, zeros, d.builder.getContext());
  Value result = d.map(
      type, {{op.getX(), d.identity(rank)}, {op.getStep(), stepMap}},
      [&](Body &b, ValueRange v) {
        Type i64 = b.getI64Type();
        Value index = b.integer(i64, 0);
        int64_t stride = 1;
        for (int64_t dim = rank - 1; dim >= 0; --dim) {
          Value at = b.toInteger(b.index(dim), i64);
          if (!op.getOffsets().empty())
            at = b.create<arith::AddIOp>(
                at, b.toInteger(op.getOffsets()[dim], i64));
          index = b.create<arith::AddIOp>(
              index, b.create<arith::MulIOp>(at, b.integer(i64, stride)));
          stride *= global[dim];
        }
        Value word = philox(b, index, v[1], getStreamId(*op.getOpName()),
                            op.getSeed())[0];
        Value limit = b.integer(i64, static_cast<int64_t>(rate * 4294967296.0));
        Value keep =
            b.create<arith::CmpIOp>(arith::CmpIPredicate::uge, word, limit);
        Value x = b.widen(v[0]);
        Value kept = b.create<arith::SelectOp>(
            keep, b.mul(x, 1.0 / (1.0 - rate)), b.constant(x.getType(), 0.0));
        return b.convert(kept, type.getElementType());
      });
  result.getDefiningOp()->setAttr(
      kRandomStreamAttrName,
      d.builder.getI64IntegerAttr(getStreamId(*op.getOpName())));
  op.replaceAllUsesWith(result);
}

//===----------------------------------------------------------------------===//
// Rotary embedding and padding
//===----------------------------------------------------------------------===//

/// Rotates x seen as [..., 2, half]:
/// y[t] = x[t] cos + (t == 0 ? -1 : 1) x[1 - t] sin.
static void decompose(RotaryOp op, Decomposer &d) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t rank = type.getRank(), half = type.getShape().back() / 2;
  SmallVector<int64_t> shape(type.getShape().drop_back());
  shape.append({2, half});
  auto halves = RankedTensorType::get(shape, type.getElementType());
  SmallVector<ReassociationIndices> groups;
  for (int64_t dim = 0; dim < rank - 1; ++dim)
    groups.push_back({dim});
  groups.push_back({rank - 1, rank});
  Value x =
      d.builder.create<tensor::ExpandShapeOp>(d.loc, halves, op.getX(), groups);

  SmallVector<AffineExpr> other;
  for (int64_t dim = 0; dim < rank - 1; ++dim)
    other.push_back(d.builder.getAffineDimExpr(dim));
  other.push_back(1 - d.builder.getAffineDimExpr(rank - 1));
  other.push_back(d.builder.getAffineDimExpr(rank));
  AffineMap otherMap =
      AffineMap::get(rank + 1, 0, other, d.builder.getContext());
  AffineMap table = d.dims(rank + 1, {1, rank});
  Value y =
      d.map(halves,
            {{x, d.identity(rank + 1)},
             {x, otherMap},
             {op.getCos(), table},
             {op.getSin(), table}},
            [&](Body &b, ValueRange v) {
              Type f32 = b.getF32Type(), i32 = b.getI32Type();
              // -1 for the first half, 1 for the second; inverse: 1 and -1.
              Value t = b.toInteger(b.index(rank - 1), i32);
              Value first = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, t,
                                                    b.integer(i32, 0));
              double sign = op.getInverse() ? 1.0 : -1.0;
              Value signedOne = b.create<arith::SelectOp>(
                  first, b.constant(f32, sign), b.constant(f32, -sign));
              Value turned =
                  b.mul(b.mul(b.convert(v[1], f32), v[3]), signedOne);
              Value value = b.add(b.mul(b.convert(v[0], f32), v[2]), turned);
              return b.convert(value, type.getElementType());
            });
  Value result =
      d.builder.create<tensor::CollapseShapeOp>(d.loc, type, y, groups);
  op.replaceAllUsesWith(result);
}

static void decompose(MaskPaddingOp op, Decomposer &d) {
  auto type = cast<RankedTensorType>(op.getType());
  Type element = type.getElementType();
  Value result = d.map(
      type, {{op.getX(), d.identity(type.getRank())}},
      [&](Body &b, ValueRange v) {
        Value inside;
        for (auto [dim, size, offset] :
             llvm::zip(op.getDims(), op.getSizes(), op.getOffsets())) {
          Value at = b.create<arith::AddIOp>(b.index(dim), offset);
          Value bound = b.create<arith::ConstantOp>(b.getIndexAttr(size));
          Value below =
              b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, at, bound);
          inside = inside ? b.create<arith::AndIOp>(inside, below).getResult()
                          : below;
        }
        if (!inside)
          return v[0];
        bool lowest = op.getValue() == PaddingValue::Lowest;
        TypedAttr padding;
        if (auto floatType = dyn_cast<FloatType>(element))
          padding = FloatAttr::get(
              element,
              lowest ? APFloat::getLargest(floatType.getFloatSemantics(), true)
                     : APFloat::getZero(floatType.getFloatSemantics()));
        else {
          unsigned width = element.getIntOrFloatBitWidth();
          padding =
              IntegerAttr::get(element, lowest ? APInt::getSignedMinValue(width)
                                               : APInt(width, 0));
        }
        return b
            .create<arith::SelectOp>(inside, v[0],
                                     b.create<arith::ConstantOp>(padding))
            .getResult();
      });
  op.replaceAllUsesWith(result);
}

bool lower::decomposeElementwise(Operation *op, OpBuilder &builder) {
  Decomposer d(builder, op->getLoc());
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<GeluOp, GeluGradOp, SiluOp, SiluGradOp, DropoutOp, RotaryOp,
            MaskPaddingOp>([&](auto typed) {
        decompose(typed, d);
        return true;
      })
      .Default([&](Operation *other) { return decomposeMappable(other, d); });
}
