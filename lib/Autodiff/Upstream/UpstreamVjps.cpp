//===- UpstreamVjps.cpp - Gradients of arith and math ops -----------------===//

#include "UpstreamVjps.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/Autodiff.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace heddle;

Value VjpContext::splat(Type type, double value) {
  return createSplat(builder, loc, type, value);
}

Value VjpContext::sumOfAll(Value x) {
  auto type = cast<RankedTensorType>(x.getType());
  return make<ReduceOp>(
      RankedTensorType::get({}, type.getElementType()),
      ReductionKindAttr::get(type.getContext(), ReductionKind::Sum), x,
      builder.getDenseI64ArrayAttr(
          llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()))),
      StringAttr());
}

void heddle::registerDifferentiableModels(DialectRegistry &registry) {
  registerArithVjps(registry);
  registerMathVjps(registry);
  registerTensorVjps(registry);
  registerLinalgVjps(registry);
}

//===----------------------------------------------------------------------===//
// arith
//===----------------------------------------------------------------------===//

static LogicalResult addVjp(arith::AddFOp op, VjpContext &c) {
  c.operandGrads[0] = c.operandGrads[1] = c.grads[0];
  return success();
}

static LogicalResult subVjp(arith::SubFOp op, VjpContext &c) {
  c.operandGrads[0] = c.grads[0];
  if (c.wanted[1])
    c.operandGrads[1] = c.make<arith::NegFOp>(c.grads[0]);
  return success();
}

static LogicalResult mulVjp(arith::MulFOp op, VjpContext &c) {
  if (c.wanted[0])
    c.operandGrads[0] = c.make<arith::MulFOp>(c.grads[0], op.getRhs());
  if (c.wanted[1])
    c.operandGrads[1] = c.make<arith::MulFOp>(c.grads[0], op.getLhs());
  return success();
}

// d(a/b) = da/b - (a/b) db/b
static LogicalResult divVjp(arith::DivFOp op, VjpContext &c) {
  Value scaled = c.make<arith::DivFOp>(c.grads[0], op.getRhs());
  c.operandGrads[0] = scaled;
  if (c.wanted[1])
    c.operandGrads[1] =
        c.make<arith::NegFOp>(c.make<arith::MulFOp>(scaled, op.getResult()));
  return success();
}

static LogicalResult negVjp(arith::NegFOp op, VjpContext &c) {
  c.operandGrads[0] = c.make<arith::NegFOp>(c.grads[0]);
  return success();
}

static LogicalResult extVjp(arith::ExtFOp op, VjpContext &c) {
  c.operandGrads[0] = c.make<arith::TruncFOp>(op.getIn().getType(), c.grads[0]);
  return success();
}

/// If `gradient` is a sum in a narrow type and has no use, returns a copy of
/// its op with the wide result type; else null. The copy saves a rounding and a
/// pass over the tensor.
static Value widenSum(VjpContext &c, Value gradient, Type wide) {
  Operation *op = gradient.getDefiningOp();
  if (!op || !gradient.use_empty() || !getElementTypeOrSelf(wide).isF32())
    return nullptr;
  auto contract = dyn_cast<ContractOp>(op);
  bool isSum = contract && contract.getPass() == ContractPass::WGrad;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    isSum = reduce.getKind() == ReductionKind::Sum;
  if (!isSum)
    return nullptr;
  // The original stays, because it may be the gradient of other values too.
  Operation *sum = c.builder.clone(*op);
  sum->getResult(0).setType(wide);
  return sum->getResult(0);
}

// A weight is cast before use, so its gradient is the gradient of this cast.
static LogicalResult truncVjp(arith::TruncFOp op, VjpContext &c) {
  Type wide = op.getIn().getType();
  c.operandGrads[0] = widenSum(c, c.grads[0], wide);
  if (!c.operandGrads[0])
    c.operandGrads[0] = c.make<arith::ExtFOp>(wide, c.grads[0]);
  return success();
}

/// The chosen operand gets the gradient. Of equal operands, the first gets it.
template <typename OpTy, arith::CmpFPredicate predicate>
static LogicalResult extremumVjp(OpTy op, VjpContext &c) {
  Value first = c.make<arith::CmpFOp>(predicate, op.getLhs(), op.getRhs());
  Value zero = c.zero(op.getType());
  c.operandGrads[0] = c.make<arith::SelectOp>(first, c.grads[0], zero);
  c.operandGrads[1] = c.make<arith::SelectOp>(first, zero, c.grads[0]);
  return success();
}

static LogicalResult selectVjp(arith::SelectOp op, VjpContext &c) {
  Value zero = c.zero(op.getType());
  if (c.wanted[1])
    c.operandGrads[1] =
        c.make<arith::SelectOp>(op.getCondition(), c.grads[0], zero);
  if (c.wanted[2])
    c.operandGrads[2] =
        c.make<arith::SelectOp>(op.getCondition(), zero, c.grads[0]);
  return success();
}

void heddle::registerArithVjps(DialectRegistry &registry) {
  using Predicate = arith::CmpFPredicate;
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachVjp<arith::AddFOp, addVjp>(context);
    attachVjp<arith::SubFOp, subVjp>(context);
    attachVjp<arith::MulFOp, mulVjp>(context);
    attachVjp<arith::DivFOp, divVjp>(context);
    attachVjp<arith::NegFOp, negVjp>(context);
    attachVjp<arith::ExtFOp, extVjp>(context);
    attachVjp<arith::TruncFOp, truncVjp>(context);
    attachVjp<arith::SelectOp, selectVjp>(context);
    attachVjp<arith::MaximumFOp,
              extremumVjp<arith::MaximumFOp, Predicate::OGE>>(context);
    attachVjp<arith::MaxNumFOp, extremumVjp<arith::MaxNumFOp, Predicate::OGE>>(
        context);
    attachVjp<arith::MinimumFOp,
              extremumVjp<arith::MinimumFOp, Predicate::OLE>>(context);
    attachVjp<arith::MinNumFOp, extremumVjp<arith::MinNumFOp, Predicate::OLE>>(
        context);
  });
}

//===----------------------------------------------------------------------===//
// math
//===----------------------------------------------------------------------===//

/// Builds the gradient of y = f(x): grad * f'(x, y).
template <typename OpTy, Value (*derivative)(VjpContext &, Value x, Value y)>
static LogicalResult chainVjp(OpTy op, VjpContext &c) {
  c.operandGrads[0] = c.make<arith::MulFOp>(
      c.grads[0], derivative(c, op.getOperand(), op.getResult()));
  return success();
}

static Value times(VjpContext &c, Value x, double factor) {
  return c.make<arith::MulFOp>(x, c.splat(x.getType(), factor));
}

static Value reciprocal(VjpContext &c, Value x) {
  return c.make<arith::DivFOp>(c.splat(x.getType(), 1), x);
}

static Value onePlus(VjpContext &c, Value x) {
  return c.make<arith::AddFOp>(c.splat(x.getType(), 1), x);
}

static Value oneMinus(VjpContext &c, Value x) {
  return c.make<arith::SubFOp>(c.splat(x.getType(), 1), x);
}

static Value square(VjpContext &c, Value x) {
  return c.make<arith::MulFOp>(x, x);
}

static Value dExp(VjpContext &c, Value x, Value y) { return y; }
static Value dExp2(VjpContext &c, Value x, Value y) {
  return times(c, y, std::numbers::ln2);
}
static Value dExpM1(VjpContext &c, Value x, Value y) { return onePlus(c, y); }
static Value dLog(VjpContext &c, Value x, Value y) { return reciprocal(c, x); }
static Value dLog2(VjpContext &c, Value x, Value y) {
  return reciprocal(c, times(c, x, std::numbers::ln2));
}
static Value dLog10(VjpContext &c, Value x, Value y) {
  return reciprocal(c, times(c, x, std::numbers::ln10));
}
static Value dLog1p(VjpContext &c, Value x, Value y) {
  return reciprocal(c, onePlus(c, x));
}
static Value dSqrt(VjpContext &c, Value x, Value y) {
  return c.make<arith::DivFOp>(c.splat(y.getType(), 0.5), y);
}
// -1/2 x^(-3/2)
static Value dRsqrt(VjpContext &c, Value x, Value y) {
  return times(c, c.make<arith::MulFOp>(y, square(c, y)), -0.5);
}
static Value dTanh(VjpContext &c, Value x, Value y) {
  return oneMinus(c, square(c, y));
}
static Value dSin(VjpContext &c, Value x, Value y) {
  return c.make<math::CosOp>(x);
}
static Value dCos(VjpContext &c, Value x, Value y) {
  return c.make<arith::NegFOp>(c.make<math::SinOp>(x));
}
static Value dAtan(VjpContext &c, Value x, Value y) {
  return reciprocal(c, onePlus(c, square(c, x)));
}
// 2 / sqrt(pi) * exp(-x^2)
static Value dErf(VjpContext &c, Value x, Value y) {
  Value exponent = c.make<arith::NegFOp>(square(c, x));
  return times(c, c.make<math::ExpOp>(exponent), 2 * std::numbers::inv_sqrtpi);
}
// The sign of x, with 0 at 0 as in PyTorch.
static Value dAbs(VjpContext &c, Value x, Value y) {
  Value zero = c.zero(x.getType());
  Value sign = c.make<math::CopySignOp>(c.splat(x.getType(), 1), x);
  Value isZero = c.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, x, zero);
  return c.make<arith::SelectOp>(isZero, zero, sign);
}

static LogicalResult powVjp(math::PowFOp op, VjpContext &c) {
  Value x = op.getLhs(), e = op.getRhs();
  if (c.wanted[0]) {
    Value lower = c.make<arith::SubFOp>(e, c.splat(e.getType(), 1));
    Value slope = c.make<arith::MulFOp>(e, c.make<math::PowFOp>(x, lower));
    c.operandGrads[0] = c.make<arith::MulFOp>(c.grads[0], slope);
  }
  if (c.wanted[1]) {
    Value slope = c.make<arith::MulFOp>(op.getResult(), c.make<math::LogOp>(x));
    c.operandGrads[1] = c.make<arith::MulFOp>(c.grads[0], slope);
  }
  return success();
}

static LogicalResult fmaVjp(math::FmaOp op, VjpContext &c) {
  if (c.wanted[0])
    c.operandGrads[0] = c.make<arith::MulFOp>(c.grads[0], op.getB());
  if (c.wanted[1])
    c.operandGrads[1] = c.make<arith::MulFOp>(c.grads[0], op.getA());
  c.operandGrads[2] = c.grads[0];
  return success();
}

void heddle::registerMathVjps(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attachVjp<math::ExpOp, chainVjp<math::ExpOp, dExp>>(context);
    attachVjp<math::Exp2Op, chainVjp<math::Exp2Op, dExp2>>(context);
    attachVjp<math::ExpM1Op, chainVjp<math::ExpM1Op, dExpM1>>(context);
    attachVjp<math::LogOp, chainVjp<math::LogOp, dLog>>(context);
    attachVjp<math::Log2Op, chainVjp<math::Log2Op, dLog2>>(context);
    attachVjp<math::Log10Op, chainVjp<math::Log10Op, dLog10>>(context);
    attachVjp<math::Log1pOp, chainVjp<math::Log1pOp, dLog1p>>(context);
    attachVjp<math::SqrtOp, chainVjp<math::SqrtOp, dSqrt>>(context);
    attachVjp<math::RsqrtOp, chainVjp<math::RsqrtOp, dRsqrt>>(context);
    attachVjp<math::TanhOp, chainVjp<math::TanhOp, dTanh>>(context);
    attachVjp<math::SinOp, chainVjp<math::SinOp, dSin>>(context);
    attachVjp<math::CosOp, chainVjp<math::CosOp, dCos>>(context);
    attachVjp<math::AtanOp, chainVjp<math::AtanOp, dAtan>>(context);
    attachVjp<math::ErfOp, chainVjp<math::ErfOp, dErf>>(context);
    attachVjp<math::AbsFOp, chainVjp<math::AbsFOp, dAbs>>(context);
    attachVjp<math::PowFOp, powVjp>(context);
    attachVjp<math::FmaOp, fmaVjp>(context);
  });
}
