//===- LowerToy.cpp - From toy ops to linalg ------------------------------===//
//
// This compiler's own lowering. It runs on the program of one device, with
// local shapes, and does not depend on devices.
//
//===----------------------------------------------------------------------===//

#include "Toy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace {

using Body = function_ref<Value(OpBuilder &, Location, ValueRange)>;

/// Builds a linalg.generic over two loops, a parallel one and `inner`. `maps`
/// are the indexing maps of its operands and its result.
Value generic(OpBuilder &builder, Location loc, Value init, ValueRange operands,
              ArrayRef<AffineMap> maps, utils::IteratorType inner, Body body) {
  auto op = builder.create<linalg::GenericOp>(
      loc, init.getType(), operands, init, maps,
      ArrayRef<utils::IteratorType>{utils::IteratorType::parallel, inner},
      [&](OpBuilder &b, Location at, ValueRange values) {
        b.create<linalg::YieldOp>(at, body(b, at, values));
      });
  return op.getResult(0);
}

Value empty(OpBuilder &builder, Location loc, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return builder.create<tensor::EmptyOp>(loc, tensor.getShape(),
                                         tensor.getElementType());
}

Value zeros(OpBuilder &builder, Location loc, Type type) {
  Value zero =
      builder.create<arith::ConstantOp>(loc, builder.getF32FloatAttr(0));
  return builder
      .create<linalg::FillOp>(loc, ValueRange(zero),
                              ValueRange(empty(builder, loc, type)))
      .getResult(0);
}

struct LowerDense : OpConversionPattern<toy::DenseOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(toy::DenseOp op, OpAdaptor operands,
                  ConversionPatternRewriter &rewriter) const override {
    Value init = zeros(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOpWithNewOp<linalg::MatmulOp>(
        op, ValueRange{operands.getX(), operands.getW()}, ValueRange(init));
    return success();
  }
};

struct LowerRelu : OpConversionPattern<toy::ReluOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(toy::ReluOp op, OpAdaptor operands,
                  ConversionPatternRewriter &rewriter) const override {
    Value zero = rewriter.create<arith::ConstantOp>(
        op.getLoc(),
        DenseElementsAttr::get(cast<RankedTensorType>(op.getType()), 0.0f));
    rewriter.replaceOpWithNewOp<arith::MaximumFOp>(op, operands.getX(), zero);
    return success();
  }
};

struct LowerSumSquares : OpConversionPattern<toy::SumSquaresOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(toy::SumSquaresOp op, OpAdaptor operands,
                  ConversionPatternRewriter &rewriter) const override {
    AffineExpr b, h;
    bindDims(op.getContext(), b, h);
    AffineMap matrix = AffineMap::get(2, 0, {b, h}, op.getContext());
    AffineMap rows = AffineMap::get(2, 0, b);
    rewriter.replaceOp(
        op, generic(rewriter, op.getLoc(),
                    zeros(rewriter, op.getLoc(), op.getType()), operands.getX(),
                    {matrix, rows}, utils::IteratorType::reduction,
                    [](OpBuilder &b, Location at, ValueRange v) -> Value {
                      Value square = b.create<arith::MulFOp>(at, v[0], v[0]);
                      return b.create<arith::AddFOp>(at, v[1], square);
                    }));
    return success();
  }
};

struct LowerDivide : OpConversionPattern<toy::DivideOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(toy::DivideOp op, OpAdaptor operands,
                  ConversionPatternRewriter &rewriter) const override {
    AffineExpr b, h;
    bindDims(op.getContext(), b, h);
    AffineMap matrix = AffineMap::get(2, 0, {b, h}, op.getContext());
    AffineMap rows = AffineMap::get(2, 0, b);
    rewriter.replaceOp(
        op, generic(rewriter, op.getLoc(),
                    empty(rewriter, op.getLoc(), op.getType()),
                    {operands.getX(), operands.getSums()},
                    {matrix, rows, matrix}, utils::IteratorType::parallel,
                    [](OpBuilder &b, Location at, ValueRange v) -> Value {
                      Value length = b.create<math::SqrtOp>(at, v[1]);
                      return b.create<arith::DivFOp>(at, v[0], length);
                    }));
    return success();
  }
};

} // namespace

LogicalResult toy::lowerToLinalg(ModuleOp module) {
  MLIRContext *context = module.getContext();
  ConversionTarget target(*context);
  target.addIllegalDialect<ToyDialect>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  RewritePatternSet patterns(context);
  patterns.add<LowerDense, LowerRelu, LowerSumSquares, LowerDivide>(context);
  return applyPartialConversion(module, target, std::move(patterns));
}
