//===- LowerKernels.cpp - Kernel functions become LLVM loops --------------===//

#include "KernelEmitter.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
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
