//===- OrderWithinMemory.cpp - Programs that fit into a device ------------===//

#include "OrderWithinMemory.h"
#include "dialects/Rt/VariableMemory.h"
#include <limits>

using namespace mlir;
using namespace heddle;

/// How often programs are ordered within the memory, and the part of a device's
/// memory that a program may exceed to be ordered within less, each time by at
/// least kReserve of the memory.
static constexpr int kAttempts = 3;
static constexpr double kNearMemory = 0.1, kReserve = 0.03;

/// Returns the most bytes by which a program exceeds the memory of a device. It
/// is negative if it leaves memory on all of them.
static int64_t getExcessBytes(ModuleOp module, const Cluster &cluster) {
  rt::DeviceKinds kinds = rt::DeviceKinds::get(module);
  int64_t most = std::numeric_limits<int64_t>::min();
  for (auto [at, plan] : llvm::enumerate(getDeviceMemoryPlans(module)))
    most = std::max(
        most, plan.total() -
                  getDeviceOfKind(module, kinds, int64_t(at), cluster).memory);
  return most;
}

/// Replaces what the module contains.
static void replaceModule(ModuleOp module, ModuleOp other) {
  module.getBodyRegion().takeBody(other.getBodyRegion());
  module->setAttrs(other->getAttrDictionary());
}

LogicalResult heddle::orderWithinMemory(
    ModuleOp module, const Cluster &cluster,
    llvm::function_ref<LogicalResult(ProgramMemory)> run) {
  OwningOpRef<ModuleOp> unordered(module.clone());
  if (failed(run({/*isAmple=*/true})))
    return failure();
  int64_t excess = getExcessBytes(module, cluster);
  ProgramMemory memory;
  for (int attempt = 0; attempt < kAttempts && excess > 0; ++attempt) {
    // The first attempt has said what there is to say.
    std::optional<ScopedDiagnosticHandler> silent;
    if (attempt > 0)
      silent.emplace(module.getContext(), [](Diagnostic &diagnostic) {
        return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
      });
    OwningOpRef<ModuleOp> smallest(module.clone());
    replaceModule(module, OwningOpRef<ModuleOp>(unordered->clone()).get());
    if (failed(run(memory)))
      return failure();
    int64_t next = getExcessBytes(module, cluster);
    if (next >= excess)
      replaceModule(module, *smallest);
    // An arena has gaps, so it may exceed the limit of live bytes a little. Far
    // from the memory, a lower limit changes little.
    double capacity = double(cluster.device.memory);
    if (next > int64_t(kNearMemory * capacity))
      return success();
    excess = std::min(excess, next);
    memory.reserve += std::max(next, int64_t(kReserve * capacity));
  }
  return success();
}
