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

/// Returns the alignments of the operands and results of every kernel that hold
/// in all its launches.
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

/// Emits an error if a launch of the batch writes bytes that another launch
/// reads or writes.
static LogicalResult verifyBatch(const Batch &batch) {
  // One access of a launch to a run of bytes. `uses` lists the accesses by
  // memory.
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

  /// A kernel function, and what its lowering needs.
  struct Kernel {
    func::FuncOp function;
    std::unique_ptr<KernelPlan> plan;
    SmallVector<int64_t> alignments;
    int64_t threads = 0; ///< of a block
    bool isFlexible = false;
  };
  using Kernels = std::map<std::string, Kernel>;
  using Parts = std::vector<std::pair<std::string, int64_t>>;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<GpuRows> shape = parseRows(rows);
    if (!shape) {
      module.emitError() << "rows: expected auto, thread, warp or block, got '"
                         << rows << "'";
      return signalPassFailure();
    }
    Kernels kernels;
    if (failed(planKernels(module, *shape, kernels)))
      return signalPassFailure();
    // The function for each list of (kernel, copies) that one launch runs.
    std::map<std::vector<std::pair<std::string, int64_t>>, std::string>
        functions;
    std::vector<Batch> batches;
    module.walk([&](rt::LaunchOp launch) {
      Batch batch = getBatch(launch);
      if (batch.front() == launch)
        batches.push_back(std::move(batch));
    });
    int64_t nextBatch = 0;
    std::set<std::string> launched;
    for (Batch &batch : batches) {
      if (failed(verifyBatch(batch)))
        return signalPassFailure();
      for (Batch &group : split(batch, kernels)) {
        std::vector<std::pair<std::string, int64_t>> parts;
        for (rt::LaunchOp launch : group) {
          if (parts.empty() || parts.back().first != launch.getKernel())
            parts.push_back({launch.getKernel().str(), 0});
          ++parts.back().second;
          launched.insert(launch.getKernel().str());
        }
        auto [function, isNew] = functions.try_emplace(parts);
        if (isNew && failed(lower(parts, kernels, *shape, functions.size() - 1,
                                  function->second)))
          return signalPassFailure();
        for (rt::LaunchOp launch : group) {
          launch.setKernel(function->second);
          if (group.size() > 1)
            launch->setAttr(
                kBatchAttrName,
                IntegerAttr::get(IntegerType::get(&getContext(), 64),
                                 nextBatch));
          else
            launch->removeAttr(kBatchAttrName);
        }
        ++nextBatch;
      }
    }
    for (auto &[name, kernel] : kernels) {
      // A kernel that no program launches is lowered, too, because tests call
      // it.
      std::string same;
      if (!launched.count(name) &&
          failed(lower({{name, 1}}, kernels, *shape, 0, same)))
        return signalPassFailure();
    }
    for (auto &[name, kernel] : kernels)
      kernel.function.erase();
  }

private:
  LogicalResult planKernels(ModuleOp module, GpuRows shape, Kernels &kernels) {
    llvm::StringMap<SmallVector<int64_t>> alignments = getAlignments(module);
    for (auto func : module.getOps<func::FuncOp>()) {
      if (!func->hasAttr(kKernelAttrName))
        continue;
      FailureOr<KernelPlan> plan = KernelPlan::create(func);
      if (failed(plan))
        return failure();
      Kernel &kernel = kernels[func.getName().str()];
      kernel.function = func;
      kernel.plan = std::make_unique<KernelPlan>(std::move(*plan));
      kernel.alignments = alignments[func.getName()];
      kernel.alignments.resize(func.getNumArguments() + func.getNumResults(),
                               kAlignment);
      GpuLayout layout(*kernel.plan, shape, kernel.alignments);
      kernel.threads = layout.threads();
      kernel.isFlexible = layout.isFlexible();
    }
    return success();
  }

  /// Splits a batch into batches whose blocks have the same number of threads.
  /// Moves the launches of each new batch together, sorted by kernel.
  static std::vector<Batch> split(const Batch &batch, Kernels &kernels) {
    std::map<int64_t, Batch> byThreads;
    Batch flexible;
    for (rt::LaunchOp launch : batch) {
      const Kernel &kernel = kernels[launch.getKernel().str()];
      (kernel.isFlexible ? flexible : byThreads[kernel.threads])
          .push_back(launch);
    }
    std::vector<Batch> groups;
    for (auto &[threads, group] : byThreads)
      groups.push_back(std::move(group));
    if (!flexible.empty())
      groups.push_back(std::move(flexible));
    Operation *last = batch.back();
    for (Batch &group : groups) {
      std::map<StringRef, Batch> byKernel;
      for (rt::LaunchOp launch : group)
        byKernel[launch.getKernel()].push_back(launch);
      group.clear();
      for (auto &[kernel, launches] : byKernel)
        llvm::append_range(group, launches);
      for (rt::LaunchOp launch : group) {
        if (launch.getOperation() != last)
          launch->moveAfter(last);
        last = launch;
      }
    }
    return groups;
  }

  /// Builds the function of some kernels and sets its name.
  LogicalResult lower(const Parts &parts, Kernels &kernels, GpuRows shape,
                      size_t number, std::string &name) {
    int64_t launches = 0;
    SmallVector<GpuPart> list;
    int64_t flops = 0, bytes = 0;
    for (auto &[kernel, copies] : parts) {
      const Kernel &known = kernels[kernel];
      list.push_back({known.plan.get(), known.alignments, copies});
      launches += copies;
      auto work = cast<rt::WorkAttr>(getWork(known.function));
      flops += work.getFlops() * copies;
      bytes += work.getBytes() * copies;
    }
    func::FuncOp first = kernels[parts.front().first].function;
    name = first.getName().str();
    if (launches > 1)
      name += "_x" + std::to_string(launches);
    if (parts.size() > 1)
      name += "_mix" + std::to_string(number);
    // The function of a single kernel takes the kernel's name.
    OpBuilder builder(first);
    FailureOr<LLVM::LLVMFuncOp> function =
        emitGpuFunction(builder, name, list, shape);
    if (failed(function))
      return failure();
    (*function)->setAttr(rt::kWorkAttrName,
                         rt::WorkAttr::get(&getContext(), flops, bytes));
    return lowerScalars(*function);
  }
};

} // namespace
