//===- LowerScalars.cpp - Arithmetic of kernels becomes LLVM's ------------===//

#include "BodyEmitter.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Returns the bytes that a kernel must read of one of its operands.
static int64_t getBytesRead(BlockArgument operand) {
  int64_t whole = getBytes(operand.getType()), picked = 0;
  for (OpOperand &use : operand.getUses()) {
    if (auto extract = dyn_cast<tensor::ExtractOp>(use.getOwner())) {
      // One element in each iteration of the op whose body this is.
      int64_t iterations = 1;
      if (auto loops = extract->getParentOfType<linalg::LinalgOp>())
        for (int64_t size : loops.getStaticLoopRanges())
          iterations *= size;
      picked += iterations * getElementBytes(extract.getType());
      continue;
    }
    auto structured = dyn_cast<linalg::LinalgOp>(use.getOwner());
    if (!structured || structured.payloadUsesValueFromOperand(&use))
      return whole;
  }
  return std::min(whole, picked);
}

Attribute lower::getWork(func::FuncOp kernel) {
  int64_t flops = 0, bytes = 0;
  kernel.walk([&](WorkOpInterface op) { flops += op.getWork().flops; });
  for (BlockArgument operand : kernel.getArguments())
    if (isa<RankedTensorType>(operand.getType()))
      bytes += getBytesRead(operand);
  for (Type result : kernel.getResultTypes())
    bytes += getBytes(result);
  return rt::WorkAttr::get(kernel.getContext(), flops, bytes);
}

LogicalResult lower::lowerScalars(LLVM::LLVMFuncOp kernel) {
  MLIRContext *context = kernel.getContext();
  // The greedy rewriter also folds constants and erases unused ops. It must not
  // merge blocks, which gives them arguments of type index that no pattern
  // below converts.
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Normal;
  RewritePatternSet polynomials(context);
  populateMathPolynomialApproximationPatterns(polynomials);
  if (failed(
          applyPatternsAndFoldGreedily(kernel, std::move(polynomials), config)))
    return kernel.emitOpError() << "could not expand math functions";

  LLVMTypeConverter types(context);
  LLVMConversionTarget target(*context);
  RewritePatternSet patterns(context);
  arith::populateArithExpandOpsPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  target.addLegalDialect<NVVM::NVVMDialect>();
  target.addLegalOp<LLVM::LLVMFuncOp>();
  if (failed(applyFullConversion(kernel, target, std::move(patterns))))
    return failure();
  return success();
}
