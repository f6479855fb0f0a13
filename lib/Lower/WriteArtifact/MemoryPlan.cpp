//===- MemoryPlan.cpp - The memory of a compiled model's devices ----------===//

#include "dialects/Rt/VariableMemory.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/Tables.h"

using namespace mlir;
using namespace heddle;

/// Returns the memory of the ranks with the coordinate `device` along the axis.
static DeviceMemoryPlan getMemoryPlan(ModuleOp module,
                                      ArrayRef<EntryTable> tables,
                                      const rt::DeviceKinds &kinds,
                                      int64_t device) {
  DeviceMemoryPlan memory;
  auto isOnDevice = [&](RanksAttr ranks) { return kinds.isOn(ranks, device); };
  rt::VariableMemory variables = rt::getVariableMemory(module, kinds, device);
  memory.parameters = variables.parameters;
  memory.optimizerState = variables.optimizerState;
  memory.gradients = variables.gradients;
  memory.counters = variables.counters;
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
            rt::getAllocatedBytes(rt::getLocalType(module, port));
    for (rt::PortAttr port : table.outputs)
      if (isOnDevice(port.getRanks()))
        memory.argumentsAndResults +=
            rt::getAllocatedBytes(rt::getLocalType(module, port));
    for (const TableSlot &slot : table.slots)
      if (slot.device == device)
        memory.slots += rt::getAllocatedBytes(slot.bytes);
  }
  if (hasNumbers)
    memory.argumentsAndResults += numbers * rt::getAllocatedBytes(int64_t(1));
  return memory;
}

std::vector<DeviceMemoryPlan> heddle::getDeviceMemoryPlans(ModuleOp module) {
  std::vector<EntryTable> tables = getTables(module);
  rt::DeviceKinds kinds = rt::DeviceKinds::get(module);
  std::vector<DeviceMemoryPlan> plans;
  for (int64_t device = 0; device < kinds.count; ++device)
    plans.push_back(getMemoryPlan(module, tables, kinds, device));
  return plans;
}

DeviceMemoryPlan heddle::getDeviceMemoryPlan(ModuleOp module) {
  std::vector<DeviceMemoryPlan> plans = getDeviceMemoryPlans(module);
  return *llvm::max_element(
      plans, [](const DeviceMemoryPlan &a, const DeviceMemoryPlan &b) {
        return a.total() < b.total();
      });
}
