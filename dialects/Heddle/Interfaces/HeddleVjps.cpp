//===- HeddleVjps.cpp - Vector-Jacobian products of the ops ---------------===//
//
// One function for each op, in the order of the .td files. Every gradient has
// the type of its value. The gradients are built on global tensors, before
// sharding; the partitioner splits their ops like any others.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

/// Casts `value` to the element type of `like`.
static Value castLike(OpBuilder &b, Location loc, Value value, Type like) {
  auto from = cast<RankedTensorType>(value.getType());
  Type element = cast<RankedTensorType>(like).getElementType();
  if (from.getElementType() == element)
    return value;
  RankedTensorType to = from.clone(element);
  if (element.getIntOrFloatBitWidth() > from.getElementTypeBitWidth())
    return b.create<arith::ExtFOp>(loc, to, value);
  return b.create<arith::TruncFOp>(loc, to, value);
}

/// Repeats `value` along the dimensions `dims` of a tensor shaped as `like`.
static Value broadcastOver(OpBuilder &b, Location loc, Value value, Type like,
                           ArrayRef<int64_t> dims, StringAttr name) {
  auto type = cast<RankedTensorType>(like);
  SmallVector<int64_t> along;
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (!llvm::is_contained(dims, i))
      along.push_back(i);
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return b.create<BroadcastOp>(loc, type.clone(element), value,
                               b.getDenseI64ArrayAttr(along), name);
}

/// Fails if the loss depends on a result that exists only for the gradient op,
/// such as `lse` or `rstd`.
static LogicalResult expectUnused(Operation *op, StringRef what, Value grad) {
  if (!grad)
    return success();
  return op->emitOpError() << "expected the loss not to depend on " << what
                           << ", whose gradient is not defined";
}

/// softmax(x) * grad, the gradient of lse = logsumexp(x).
static Value softmaxTimes(OpBuilder &b, Location loc, Value x, Value lse,
                          Value grad, StringAttr name) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t last = type.getRank() - 1;
  Value wide = castLike(b, loc, x, lse.getType());
  Value shifted = b.create<arith::SubFOp>(
      loc, wide, broadcastOver(b, loc, lse, type, last, name));
  Value product =
      b.create<arith::MulFOp>(loc, b.create<math::ExpOp>(loc, shifted),
                              broadcastOver(b, loc, grad, type, last, name));
  return castLike(b, loc, product, type);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

// For result[c] = sum of lhs[l] * rhs[r], the gradients are
//   dlhs[l] = sum of dresult[c] * rhs[r],
//   drhs[r] = sum of lhs[l] * dresult[c].
// Both are contractions, since every letter occurs in at least two of l, r, c.
LogicalResult ContractOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                   ArrayRef<bool> wanted,
                                   MutableArrayRef<Value> operandGrads) {
  StringAttr l = getContraction().getLhs(), r = getContraction().getRhs(),
             c = getContraction().getResult();
  MLIRContext *context = getContext();
  Value grad = castLike(b, getLoc(), grads[0], getLhs().getType());
  if (wanted[0])
    operandGrads[0] = b.create<ContractOp>(
        getLoc(), getLhs().getType(), grad, getRhs(),
        ContractionAttr::get(context, c, r, l),
        ContractPassAttr::get(context, ContractPass::DGrad), getOpNameAttr());
  if (wanted[1])
    operandGrads[1] = b.create<ContractOp>(
        getLoc(), getRhs().getType(), getLhs(), grad,
        ContractionAttr::get(context, l, c, r),
        ContractPassAttr::get(context, ContractPass::WGrad), getOpNameAttr());
  if (getBias() && wanted[2]) {
    SmallVector<int64_t> over;
    for (int64_t i = 0; i < getType().getRank(); ++i)
      if (!llvm::is_contained(*getBiasAlong(), i))
        over.push_back(i);
    Value sum = castLike(b, getLoc(), grads[0], getBias().getType());
    operandGrads[2] =
        b.create<ReduceOp>(getLoc(), getBias().getType(),
                           ReductionKindAttr::get(context, ReductionKind::Sum),
                           sum, b.getDenseI64ArrayAttr(over), getOpNameAttr());
  }
  if (getAccumulate())
    operandGrads.back() = grads[0];
  return success();
}

//===----------------------------------------------------------------------===//
// Normalization
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                    ArrayRef<bool> wanted,
                                    MutableArrayRef<Value> operandGrads) {
  if (failed(expectUnused(*this, "mean", grads[1])) ||
      failed(expectUnused(*this, "rstd", grads[2])))
    return failure();
  auto sum =
      RankedTensorType::get(getWeight().getType().getShape(), b.getF32Type());
  auto grad = b.create<LayerNormGradOp>(getLoc(), getX().getType(), sum, sum,
                                        getX(), getWeight(), getMean(),
                                        getRstd(), grads[0], getOpNameAttr());
  Value operands[] = {getX(), getWeight(), getBias()};
  for (unsigned i = 0; i < 3; ++i)
    if (wanted[i])
      operandGrads[i] =
          castLike(b, getLoc(), grad.getResult(i), operands[i].getType());
  return success();
}

LogicalResult RmsNormOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                  ArrayRef<bool> wanted,
                                  MutableArrayRef<Value> operandGrads) {
  if (failed(expectUnused(*this, "rstd", grads[1])))
    return failure();
  auto sum =
      RankedTensorType::get(getWeight().getType().getShape(), b.getF32Type());
  auto grad = b.create<RmsNormGradOp>(getLoc(), getX().getType(), sum, getX(),
                                      getWeight(), getRstd(), grads[0],
                                      getOpNameAttr());
  Value operands[] = {getX(), getWeight()};
  for (unsigned i = 0; i < 2; ++i)
    if (wanted[i])
      operandGrads[i] =
          castLike(b, getLoc(), grad.getResult(i), operands[i].getType());
  return success();
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                    ArrayRef<bool> wanted,
                                    MutableArrayRef<Value> operandGrads) {
  if (wanted[0])
    operandGrads[0] = b.create<EmbeddingGradOp>(
        getLoc(), getTable().getType(), getIds(), grads[0],
        /*accumulate=*/Value(), getOffset(), getOpNameAttr());
  return success();
}

LogicalResult CrossEntropyOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                       ArrayRef<bool> wanted,
                                       MutableArrayRef<Value> operandGrads) {
  if (!wanted[0])
    return success();
  Value grad;
  if (grads[0])
    grad = b.create<CrossEntropyGradOp>(
        getLoc(), getLogits().getType(), getLogits(), getTargets(), getLse(),
        grads[0], /*offset=*/Value(), getIgnoreIndexAttr(), getOpNameAttr());
  if (grads[1]) {
    Value ofLse = softmaxTimes(b, getLoc(), getLogits(), getLse(), grads[1],
                               getOpNameAttr());
    grad = grad ? b.create<arith::AddFOp>(getLoc(), grad, ofLse) : ofLse;
  }
  operandGrads[0] = grad;
  return success();
}

LogicalResult LogSumExpOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                    ArrayRef<bool> wanted,
                                    MutableArrayRef<Value> operandGrads) {
  if (wanted[0])
    operandGrads[0] = softmaxTimes(b, getLoc(), getLogits(), getResult(),
                                   grads[0], getOpNameAttr());
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                 ArrayRef<bool> wanted,
                                 MutableArrayRef<Value> operandGrads) {
  if (!wanted[0])
    return success();
  Location loc = getLoc();
  RankedTensorType type = getX().getType();
  Value grad = grads[0];
  if (getKind() == ReductionKind::Max) {
    // Equal maxima share the gradient, as in torch.amax.
    Value maximum = castLike(b, loc, getResult(), type);
    Value isMax = b.create<arith::CmpFOp>(
        loc, arith::CmpFPredicate::OEQ, getX(),
        broadcastOver(b, loc, maximum, type, getOver(), getOpNameAttr()));
    Value ones =
        b.create<arith::UIToFPOp>(loc, type.clone(b.getF32Type()), isMax);
    auto rows = cast<RankedTensorType>(getType()).clone(b.getF32Type());
    Value count = b.create<ReduceOp>(
        loc, rows, ReductionKindAttr::get(getContext(), ReductionKind::Sum),
        ones, getOverAttr(), getOpNameAttr());
    Value share =
        b.create<arith::DivFOp>(loc, castLike(b, loc, grad, rows), count);
    Value spread =
        broadcastOver(b, loc, share, type, getOver(), getOpNameAttr());
    operandGrads[0] =
        castLike(b, loc, b.create<arith::MulFOp>(loc, ones, spread), type);
    return success();
  }
  operandGrads[0] = broadcastOver(b, loc, castLike(b, loc, grad, type), type,
                                  getOver(), getOpNameAttr());
  return success();
}

LogicalResult BroadcastOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                    ArrayRef<bool> wanted,
                                    MutableArrayRef<Value> operandGrads) {
  if (!wanted[0])
    return success();
  SmallVector<int64_t> over;
  for (int64_t i = 0; i < getType().getRank(); ++i)
    if (!llvm::is_contained(getAlong(), i))
      over.push_back(i);
  if (over.empty())
    operandGrads[0] = grads[0];
  else
    operandGrads[0] = b.create<ReduceOp>(
        getLoc(), getX().getType(),
        ReductionKindAttr::get(getContext(), ReductionKind::Sum), grads[0],
        b.getDenseI64ArrayAttr(over), getOpNameAttr());
  return success();
}

LogicalResult UnstackOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                  ArrayRef<bool> wanted,
                                  MutableArrayRef<Value> operandGrads) {
  if (!wanted[0])
    return success();
  SmallVector<Value> slices(grads);
  for (auto [slice, result] : llvm::zip(slices, getSlices()))
    if (!slice)
      slice = b.create<arith::ConstantOp>(getLoc(),
                                          b.getZeroAttr(result.getType()));
  operandGrads[0] =
      b.create<StackOp>(getLoc(), getX().getType(), slices, getOpNameAttr());
  return success();
}

LogicalResult StackOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                ArrayRef<bool> wanted,
                                MutableArrayRef<Value> operandGrads) {
  auto slices = b.create<UnstackOp>(getLoc(), getSlices().getTypes(), grads[0],
                                    getOpNameAttr());
  for (auto [i, slice] : llvm::enumerate(slices.getSlices()))
    if (wanted[i])
      operandGrads[i] = slice;
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise and positional
//===----------------------------------------------------------------------===//

LogicalResult GeluOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                               ArrayRef<bool> wanted,
                               MutableArrayRef<Value> operandGrads) {
  if (wanted[0])
    operandGrads[0] =
        b.create<GeluGradOp>(getLoc(), getType(), getX(), grads[0],
                             getApproximateAttr(), getOpNameAttr());
  return success();
}

LogicalResult SiluOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                               ArrayRef<bool> wanted,
                               MutableArrayRef<Value> operandGrads) {
  if (wanted[0])
    operandGrads[0] = b.create<SiluGradOp>(getLoc(), getType(), getX(),
                                           grads[0], getOpNameAttr());
  return success();
}

LogicalResult DropoutOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                  ArrayRef<bool> wanted,
                                  MutableArrayRef<Value> operandGrads) {
  if (wanted[0])
    operandGrads[0] = b.create<DropoutOp>(
        getLoc(), getType(), grads[0], getStep(), getOffsets(), getRateAttr(),
        getSeedAttr(), getGlobalShapeAttr(), getOpNameAttr());
  return success();
}

// The gradient of a rotation is the inverse rotation. The tables have none.
LogicalResult RotaryOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                 ArrayRef<bool> wanted,
                                 MutableArrayRef<Value> operandGrads) {
  if (wanted[1] || wanted[2])
    return emitOpError() << "expected tables that depend on no parameter";
  operandGrads[0] = b.create<RotaryOp>(
      getLoc(), getX().getType(), grads[0], getCos(), getSin(),
      getInverse() ? UnitAttr() : b.getUnitAttr(), getOpNameAttr());
  return success();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

LogicalResult ReshardOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                  ArrayRef<bool> wanted,
                                  MutableArrayRef<Value> operandGrads) {
  if (wanted[0])
    operandGrads[0] =
        b.create<ReshardOp>(getLoc(), getType(), grads[0], getTo(), getFrom());
  return success();
}

LogicalResult MaskPaddingOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                      ArrayRef<bool> wanted,
                                      MutableArrayRef<Value> operandGrads) {
  if (wanted[0])
    operandGrads[0] = b.create<MaskPaddingOp>(
        getLoc(), getType(), grads[0], getOffsets(), getDimsAttr(),
        getSizesAttr(),
        PaddingValueAttr::get(getContext(), PaddingValue::Zero));
  return success();
}

//===----------------------------------------------------------------------===//
// Order of computations
//===----------------------------------------------------------------------===//

LogicalResult BarrierOp::buildVjp(OpBuilder &, ArrayRef<Value> grads,
                                  ArrayRef<bool> wanted,
                                  MutableArrayRef<Value> operandGrads) {
  for (auto [i, grad] : llvm::enumerate(grads))
    if (wanted[i])
      operandGrads[i] = grad;
  return success();
}
