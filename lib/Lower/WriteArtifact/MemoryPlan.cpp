//===- MemoryPlan.cpp - The memory of a compiled model's devices ----------===//

#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/Tables.h"

using namespace mlir;
using namespace heddle;

/// Returns the bytes that the runtime allocates for a tensor. Every buffer
/// starts on a cache line.
static constexpr int64_t kBufferAlignment = 64;
static int64_t getAllocatedBytes(RankedTensorType type) {
  return llvm::alignTo(rt::getByteSize(type), kBufferAlignment);
}

/// Returns whether a set of ranks has one with the coordinate `device` along
/// the axis. A null set has all ranks, and without an axis all devices are
/// alike.
static bool isOn(RanksAttr ranks, StringAttr axis, int64_t device) {
  if (!ranks || !axis)
    return true;
  return llvm::all_of(ranks.getWhere(), [&](CoordinatesAttr condition) {
    return condition.getAxis() != axis ||
           llvm::is_contained(condition.getValues(), device);
  });
}

/// Returns the memory of the ranks with the coordinate `device` along the axis.
static DeviceMemoryPlan getMemoryPlan(ModuleOp module,
                                      ArrayRef<EntryTable> tables,
                                      StringAttr axis, int64_t device) {
  DeviceMemoryPlan memory;
  auto isOnDevice = [&](RanksAttr ranks) { return isOn(ranks, axis, device); };
  for (auto variable : module.getOps<VariableOp>()) {
    if (!isOnDevice(variable->getAttrOfType<RanksAttr>(kRanksAttrName)))
      continue;
    int64_t bytes = getAllocatedBytes(rt::getLocalType(variable));
    switch (variable.getRole()) {
    case VariableRole::Parameter:
    case VariableRole::Buffer:
      memory.parameters += bytes;
      break;
    case VariableRole::OptimizerState:
      memory.optimizerState += bytes;
      break;
    case VariableRole::Gradient:
    case VariableRole::Loss:
      memory.gradients += bytes;
      break;
    case VariableRole::Counter:
    case VariableRole::Setting:
      memory.counters += bytes;
      break;
    }
  }
  for (Operation &op : *module.getBody()) {
    if (!isOnDevice(op.getAttrOfType<RanksAttr>(kRanksAttrName)))
      continue;
    if (auto program = dyn_cast<rt::ProgramOp>(op))
      memory.arena = std::max<int64_t>(memory.arena, program.getArena());
    else if (auto program = dyn_cast<rt::ExportOp>(op))
      memory.arena = std::max<int64_t>(memory.arena, program.getArena());
  }
  int64_t numbers = 0; // of micro-batches, one buffer each
  bool hasNumbers = false;
  for (const EntryTable &table : tables) {
    numbers = std::max(numbers, table.microBatches);
    hasNumbers |= takesMicroBatch(table);
    for (rt::PortAttr port : table.inputs)
      if (isOnDevice(port.getRanks()))
        memory.argumentsAndResults +=
            table.microBatches *
            getAllocatedBytes(rt::getLocalType(module, port));
    for (rt::PortAttr port : table.outputs)
      if (isOnDevice(port.getRanks()))
        memory.argumentsAndResults +=
            getAllocatedBytes(rt::getLocalType(module, port));
    for (const TableSlot &slot : table.slots)
      if (slot.device == device)
        memory.slots += llvm::alignTo(slot.bytes, kBufferAlignment);
  }
  if (hasNumbers)
    memory.argumentsAndResults += numbers * kBufferAlignment;
  return memory;
}

std::vector<DeviceMemoryPlan> heddle::getDeviceMemoryPlans(ModuleOp module) {
  std::vector<EntryTable> tables = getTables(module);
  StringAttr axis;
  int64_t devices = 1;
  if (auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName)) {
    axis = pipeline.getAxis();
    for (auto mesh : module.getOps<MeshOp>())
      devices = std::max<int64_t>(mesh.getMesh().getAxisSize(axis), 1);
  }
  std::vector<DeviceMemoryPlan> plans;
  for (int64_t device = 0; device < devices; ++device)
    plans.push_back(getMemoryPlan(module, tables, axis, device));
  return plans;
}

DeviceMemoryPlan heddle::getDeviceMemoryPlan(ModuleOp module) {
  std::vector<DeviceMemoryPlan> plans = getDeviceMemoryPlans(module);
  return *llvm::max_element(
      plans, [](const DeviceMemoryPlan &a, const DeviceMemoryPlan &b) {
        return a.total() < b.total();
      });
}
