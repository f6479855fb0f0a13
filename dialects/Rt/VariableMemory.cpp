//===- VariableMemory.cpp - Bytes of variables on devices -----------------===//

#include "dialects/Rt/VariableMemory.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::rt;

static constexpr int64_t kBufferAlignment = 64;

int64_t rt::getAllocatedBytes(int64_t bytes) {
  return llvm::alignTo(bytes, kBufferAlignment);
}

int64_t rt::getAllocatedBytes(RankedTensorType type) {
  return getAllocatedBytes(getByteSize(type));
}

DeviceKinds DeviceKinds::get(ModuleOp module) {
  DeviceKinds kinds;
  if (auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName)) {
    kinds.axis = pipeline.getAxis();
    for (auto mesh : module.getOps<MeshOp>())
      kinds.count =
          std::max<int64_t>(mesh.getMesh().getAxisSize(kinds.axis), 1);
  }
  return kinds;
}

bool DeviceKinds::isOn(RanksAttr ranks, int64_t device) const {
  if (!ranks || !axis)
    return true;
  return llvm::all_of(ranks.getWhere(), [&](CoordinatesAttr condition) {
    return condition.getAxis() != axis ||
           llvm::is_contained(condition.getValues(), device);
  });
}

VariableMemory rt::getVariableMemory(ModuleOp module, const DeviceKinds &kinds,
                                     int64_t device) {
  VariableMemory memory;
  for (auto variable : module.getOps<VariableOp>()) {
    if (!kinds.isOn(variable->getAttrOfType<RanksAttr>(kRanksAttrName), device))
      continue;
    int64_t bytes = getAllocatedBytes(getLocalType(variable));
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
  return memory;
}
