//===- VerifyGpuKernels.cpp - Checks that NVPTX can select all ops --------===//
//
// LLVM ends the process where its code generator has no instructions for an
// operation (a sine of f64). So this pass refuses every operation that is not
// known to have instructions, before LLVM sees it.
//
//===----------------------------------------------------------------------===//

#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace heddle {
#define GEN_PASS_DEF_VERIFYGPUKERNELSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns whether the op is an intrinsic that becomes instructions.
static bool isKnownIntrinsic(Operation *op) {
  return isa<LLVM::AbsOp, LLVM::CopySignOp, LLVM::CountLeadingZerosOp,
             LLVM::CountTrailingZerosOp, LLVM::CtPopOp, LLVM::FAbsOp,
             LLVM::FCeilOp, LLVM::FFloorOp, LLVM::FMAOp, LLVM::FTruncOp,
             LLVM::MaxNumOp, LLVM::MaximumOp, LLVM::MinNumOp, LLVM::MinimumOp,
             LLVM::RoundEvenOp, LLVM::RoundOp, LLVM::SMaxOp, LLVM::SMinOp,
             LLVM::SqrtOp, LLVM::UMaxOp, LLVM::UMinOp>(op);
}

static LogicalResult verifyOp(Operation *op) {
  if (isa<NVVM::NVVMDialect>(op->getDialect()))
    return success();
  if (!isa<LLVM::LLVMDialect>(op->getDialect()))
    return op->emitOpError() << "expected only ops of LLVM and NVVM in a "
                                "kernel of a GPU";
  StringRef name = op->getName().getStringRef();
  if (auto call = dyn_cast<LLVM::CallOp>(op))
    return op->emitOpError()
           << "cannot be compiled for a GPU: there is no "
           << call.getCallee().value_or("such function") << " there";
  if (name.starts_with("llvm.intr.") && !isKnownIntrinsic(op))
    return op->emitOpError() << "cannot be compiled for a GPU: no instructions "
                                "compute it for "
                             << op->getResultTypes().front();
  return success();
}

namespace {
struct VerifyGpuKernels
    : heddle::impl::VerifyGpuKernelsPassBase<VerifyGpuKernels> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      if (!function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
        continue;
      WalkResult walked = function.walk([&](Operation *op) {
        return op == function.getOperation() || succeeded(verifyOp(op))
                   ? WalkResult::advance()
                   : WalkResult::interrupt();
      });
      if (walked.wasInterrupted())
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
