//===- VerifyMemory.cpp - Variables against the memory of devices ---------===//

#include "dialects/Rt/VariableMemory.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace heddle;

std::vector<PlanProblem> heddle::verifyPlanMemory(ModuleOp sharded,
                                                  const Plan &plan,
                                                  const Cluster &cluster) {
  rt::DeviceKinds kinds = rt::DeviceKinds::get(sharded);
  rt::VariableMemory most;
  int64_t at = 0;
  for (int64_t device = 0; device < kinds.count; ++device) {
    rt::VariableMemory memory = rt::getVariableMemory(sharded, kinds, device);
    if (memory.getTotal() > most.getTotal()) {
      most = memory;
      at = device;
    }
  }
  if (most.getTotal() <= cluster.device.memory)
    return {};
  std::string devices = "each device";
  if (kinds.axis && kinds.count > 1)
    devices =
        llvm::formatv("the devices with {0} = {1}", kinds.axis.getValue(), at)
            .str();
  std::string message = llvm::formatv(
      "parameters ({0} bytes), optimizer state ({1}) and gradients ({2}) need "
      "{3} bytes on {4}, but a device of '{5}' has {6}: store them in more "
      "parts (\"storage\"; --zero), or split operators over more devices",
      most.parameters, most.optimizerState, most.gradients, most.getTotal(),
      devices, cluster.name, cluster.device.memory);
  return {{PlanRule::Memory, /*isWarning=*/false, plan.getPosition("storage"),
           "$.storage", std::move(message), 0, "",
           UnknownLoc::get(sharded.getContext())}};
}
