//===- LowerKernelsToGpu.cpp - Kernel functions for NVIDIA GPUs -----------===//

#include "GpuEmitter.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringMap.h"
#include <numeric>

namespace heddle {
#define GEN_PASS_DEF_LOWERKERNELSTOGPUPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Memory that the runtime allocates begins at a multiple of this.
static constexpr int64_t kAlignment = 16;

/// Returns the alignments of the operands and results of every kernel, as far
/// as all its launches have them.
static llvm::StringMap<SmallVector<int64_t>> getAlignments(ModuleOp module) {
  llvm::StringMap<SmallVector<int64_t>> alignments;
  module.walk([&](rt::LaunchOp launch) {
    SmallVector<Attribute> buffers(launch.getOperands_().getValue());
    llvm::append_range(buffers, launch.getResults_());
    SmallVector<int64_t> &list = alignments[launch.getKernel()];
    list.resize(buffers.size(), kAlignment);
    for (auto [alignment, attribute] : llvm::zip(list, buffers))
      if (auto buffer = dyn_cast<rt::BufferAttr>(attribute))
        alignment = std::gcd(alignment, buffer.getOffset());
  });
  return alignments;
}

static std::optional<GpuRows> parseRows(StringRef text) {
  return llvm::StringSwitch<std::optional<GpuRows>>(text)
      .Case("auto", GpuRows::Auto)
      .Case("thread", GpuRows::Thread)
      .Case("warp", GpuRows::Warp)
      .Case("block", GpuRows::Block)
      .Default(std::nullopt);
}

namespace {

struct LowerKernelsToGpu
    : heddle::impl::LowerKernelsToGpuPassBase<LowerKernelsToGpu> {
  using LowerKernelsToGpuPassBase::LowerKernelsToGpuPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<GpuRows> shape = parseRows(rows);
    if (!shape) {
      module.emitError() << "rows: expected auto, thread, warp or block, got '"
                         << rows << "'";
      return signalPassFailure();
    }
    llvm::StringMap<SmallVector<int64_t>> alignments = getAlignments(module);
    SmallVector<func::FuncOp> kernels;
    for (auto func : module.getOps<func::FuncOp>())
      if (func->hasAttr(kKernelAttrName))
        kernels.push_back(func);
    for (func::FuncOp kernel : kernels) {
      SmallVector<int64_t> &known = alignments[kernel.getName()];
      known.resize(kernel.getNumArguments() + kernel.getNumResults(),
                   kAlignment);
      if (failed(lower(kernel, *shape, known)))
        return signalPassFailure();
    }
  }

  LogicalResult lower(func::FuncOp kernel, GpuRows shape,
                      ArrayRef<int64_t> alignments) {
    FailureOr<KernelPlan> plan = KernelPlan::create(kernel);
    if (failed(plan))
      return failure();
    OpBuilder builder(kernel);
    FailureOr<LLVM::LLVMFuncOp> func =
        GpuEmitter(*plan, kernel.getLoc(), builder, shape, alignments).emit();
    if (failed(func))
      return failure();
    (*func)->setAttr(rt::kWorkAttrName, getWork(kernel));
    kernel.erase();
    return lowerScalars(*func);
  }
};

} // namespace
