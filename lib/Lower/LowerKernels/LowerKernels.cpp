//===- LowerKernels.cpp - Kernel functions become LLVM loops --------------===//

#include "KernelEmitter.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {
#define GEN_PASS_DEF_LOWERKERNELSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Sets fast-math flags, so that sums can be vectorized. nnan and ninf are not
/// set, because masks are -inf and NaN must be seen.
static void allowReassociation(Operation *root) {
  constexpr auto flags = arith::FastMathFlags::reassoc |
                         arith::FastMathFlags::contract |
                         arith::FastMathFlags::nsz | arith::FastMathFlags::arcp;
  root->walk([&](Operation *op) {
    if (auto fast = dyn_cast<arith::ArithFastMathInterface>(op))
      op->setAttr(fast.getFastMathAttrName(),
                  arith::FastMathFlagsAttr::get(op->getContext(), flags));
  });
}

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

/// Returns the work of one launch. Values inside of the kernel move no bytes.
static rt::WorkAttr getWork(func::FuncOp kernel) {
  int64_t flops = 0, bytes = 0;
  kernel.walk([&](WorkOpInterface op) { flops += op.getWork().flops; });
  for (BlockArgument operand : kernel.getArguments())
    if (isa<RankedTensorType>(operand.getType()))
      bytes += getBytesRead(operand);
  for (Type result : kernel.getResultTypes())
    bytes += getBytes(result);
  return rt::WorkAttr::get(kernel.getContext(), flops, bytes);
}

namespace {

struct LowerKernels : heddle::impl::LowerKernelsPassBase<LowerKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> kernels;
    for (auto func : module.getOps<func::FuncOp>())
      if (func->hasAttr(kKernelAttrName))
        kernels.push_back(func);
    llvm::StringSet<> called;
    module.walk([&](func::CallOp call) { called.insert(call.getCallee()); });
    for (func::FuncOp kernel : kernels) {
      if (called.contains(kernel.getName())) {
        kernel.emitOpError() << "expected launches of the kernel instead of "
                                "func.call before it is lowered";
        return signalPassFailure();
      }
      if (failed(lower(kernel)))
        return signalPassFailure();
    }
  }

  LogicalResult lower(func::FuncOp kernel) {
    FailureOr<KernelPlan> plan = KernelPlan::create(kernel);
    if (failed(plan))
      return failure();
    OpBuilder builder(kernel);
    FailureOr<LLVM::LLVMFuncOp> func =
        KernelEmitter(*plan, kernel.getLoc(), builder).emit();
    if (failed(func))
      return failure();
    (*func)->setAttr(rt::kWorkAttrName, getWork(kernel));
    kernel.erase();
    allowReassociation(*func);

    // The greedy rewriter also folds constants and erases unused ops.
    RewritePatternSet polynomials(&getContext());
    populateMathPolynomialApproximationPatterns(polynomials);
    if (failed(applyPatternsAndFoldGreedily(*func, std::move(polynomials))))
      return func->emitOpError() << "could not expand math functions";
    allowReassociation(*func);

    LLVMTypeConverter types(&getContext());
    LLVMConversionTarget target(getContext());
    RewritePatternSet patterns(&getContext());
    arith::populateArithExpandOpsPatterns(patterns);
    arith::populateArithToLLVMConversionPatterns(types, patterns);
    populateMathToLLVMConversionPatterns(types, patterns);
    target.addLegalOp<LLVM::LLVMFuncOp>();
    if (failed(applyFullConversion(*func, target, std::move(patterns))))
      return failure();
    return success();
  }
};

} // namespace
