//===- LowerKernelsToGpu.cpp - Kernel functions for NVIDIA GPUs -----------===//

#include "../Batches/Batches.h"
#include "GpuEmitter.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <numeric>
#include <set>

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

/// The launches that one launch on the GPU runs.
using Batch = SmallVector<rt::LaunchOp>;

/// Returns an error unless no launch of the batch writes bytes that another one
/// reads or writes.
static LogicalResult verifyBatch(const Batch &batch) {
  // By memory: the bytes that a launch touches, in order.
  struct Use {
    int64_t begin, end;
    bool writes;
    rt::LaunchOp launch;
  };
  std::map<std::tuple<rt::Space, const void *, int64_t>, std::vector<Use>> uses;
  for (rt::LaunchOp launch : batch)
    for (const rt::Access &access :
         cast<rt::DeviceCallOpInterface>(launch.getOperation()).getAccesses()) {
      rt::BufferAttr buffer = access.buffer;
      uses[{buffer.getSpace(), buffer.getSymbol().getAsOpaquePointer(),
            buffer.getIndex()}]
          .push_back({buffer.getOffset(),
                      buffer.getOffset() + buffer.getBytes(), access.writes,
                      launch});
    }
  for (auto &[memory, list] : uses)
    for (const Use &a : list)
      for (const Use &b : list)
        if (a.writes && a.launch != b.launch && a.begin < b.end &&
            b.begin < a.end)
          return rt::LaunchOp(a.launch).emitOpError()
                 << "expected launches of a batch to be independent, got one "
                    "that touches bytes "
                 << b.begin << " to " << b.end << ", which this one writes";
  return success();
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
    llvm::StringMap<Copies> copies;
    if (failed(nameBatches(module, copies)))
      return signalPassFailure();
    SmallVector<func::FuncOp> kernels;
    for (auto func : module.getOps<func::FuncOp>())
      if (func->hasAttr(kKernelAttrName))
        kernels.push_back(func);
    for (func::FuncOp kernel : kernels) {
      SmallVector<int64_t> &known = alignments[kernel.getName()];
      known.resize(kernel.getNumArguments() + kernel.getNumResults(),
                   kAlignment);
      if (failed(lower(kernel, *shape, known, copies[kernel.getName()])))
        return signalPassFailure();
    }
  }

  /// The numbers of copies in which a kernel is launched.
  using Copies = std::set<int64_t>;

  /// Names the kernel that each launch needs: one for each number of copies.
  LogicalResult nameBatches(ModuleOp module, llvm::StringMap<Copies> &copies) {
    std::vector<Batch> batches;
    module.walk([&](rt::LaunchOp launch) {
      Batch batch = getBatch(launch);
      if (batch.front() == launch)
        batches.push_back(std::move(batch));
    });
    for (Batch &batch : batches) {
      int64_t count = batch.size();
      copies[batch.front().getKernel()].insert(count);
      if (count == 1)
        continue;
      if (failed(verifyBatch(batch)))
        return failure();
      std::string name = nameOf(batch.front().getKernel(), count);
      for (rt::LaunchOp launch : batch)
        launch.setKernel(name);
    }
    return success();
  }

  static std::string nameOf(StringRef kernel, int64_t copies) {
    return copies == 1 ? kernel.str() : (kernel + "_x" + Twine(copies)).str();
  }

  LogicalResult lower(func::FuncOp kernel, GpuRows shape,
                      ArrayRef<int64_t> alignments, const Copies &copies) {
    FailureOr<KernelPlan> plan = KernelPlan::create(kernel);
    if (failed(plan))
      return failure();
    OpBuilder builder(kernel);
    for (int64_t count : copies.empty() ? Copies{1} : copies) {
      builder.setInsertionPoint(kernel);
      FailureOr<LLVM::LLVMFuncOp> func =
          GpuEmitter(*plan, kernel.getLoc(), builder, shape, alignments,
                     nameOf(kernel.getName(), count), count)
              .emit();
      if (failed(func))
        return failure();
      (*func)->setAttr(rt::kWorkAttrName, getWork(kernel));
      if (failed(lowerScalars(*func)))
        return failure();
    }
    kernel.erase();
    return success();
  }
};

} // namespace
