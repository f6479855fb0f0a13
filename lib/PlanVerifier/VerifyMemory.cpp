//===- VerifyMemory.cpp - Variables against the memory of devices ---------===//

#include "dialects/Rt/VariableMemory.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace heddle;

ClusterDevice heddle::getDeviceOfKind(ModuleOp sharded,
                                      const rt::DeviceKinds &kinds, int64_t at,
                                      const Cluster &cluster) {
  if (cluster.groups.empty())
    return cluster.device;
  std::vector<int64_t> sizes;
  size_t axis = 0;
  for (auto op : sharded.getOps<MeshOp>())
    for (MeshAxisAttr each : op.getMesh().getAxes()) {
      if (each.getName() == kinds.axis)
        axis = sizes.size();
      sizes.push_back(each.getSize());
    }
  int64_t count = 1, inner = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    count *= sizes[i];
    inner *= i > axis ? sizes[i] : 1;
  }
  std::vector<int64_t> devices;
  for (int64_t device = 0; device < std::min(count, cluster.getNumDevices());
       ++device)
    if (!kinds.axis || device / inner % sizes[axis] == at)
      devices.push_back(device);
  return cluster.getDeviceOf(devices);
}

std::vector<PlanProblem> heddle::verifyPlanMemory(ModuleOp sharded,
                                                  const Plan &plan,
                                                  const Cluster &cluster) {
  rt::DeviceKinds kinds = rt::DeviceKinds::get(sharded);
  rt::VariableMemory most;
  ClusterDevice smallest;
  int64_t at = -1, excess = 0;
  for (int64_t device = 0; device < kinds.count; ++device) {
    rt::VariableMemory memory = rt::getVariableMemory(sharded, kinds, device);
    ClusterDevice has = getDeviceOfKind(sharded, kinds, device, cluster);
    if (memory.getTotal() - has.memory > excess) {
      excess = memory.getTotal() - has.memory;
      most = memory;
      smallest = has;
      at = device;
    }
  }
  if (at < 0)
    return {};
  std::string devices = "each device";
  if (kinds.axis && kinds.count > 1)
    devices =
        llvm::formatv("the devices with {0} = {1}", kinds.axis.getValue(), at)
            .str();
  std::string message = llvm::formatv(
      "parameters ({0} bytes), optimizer state ({1}) and gradients ({2}) need "
      "{3} bytes on {4}, but {5} has {6}: store them in more "
      "parts (\"storage\"; --zero), or split operators over more devices",
      most.parameters, most.optimizerState, most.gradients, most.getTotal(),
      devices,
      cluster.groups.empty()
          ? "a device of '" + cluster.name + "'"
          : "a '" + smallest.kind + "' of '" + cluster.name + "'",
      smallest.memory);
  return {{PlanRule::Memory, /*isWarning=*/false, plan.getPosition("storage"),
           "$.storage", std::move(message), 0, "",
           UnknownLoc::get(sharded.getContext())}};
}
