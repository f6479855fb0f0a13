//===- LowerKernels.cpp - Kernel functions become LLVM loops --------------===//

#include "KernelEmitter.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Lower/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {
#define GEN_PASS_DEF_LOWERKERNELSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

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
    return lowerScalars(*func);
  }
};

} // namespace
