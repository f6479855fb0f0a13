//===- MemoryParts.cpp - The parts of a device's memory by name -----------===//

#include "heddle/Simulate/Report.h"

using namespace heddle;

llvm::SmallVector<MemoryPart>
heddle::getMemoryParts(const DeviceMemoryPlan &plan) {
  return {{"parameters", "parameters", plan.parameters},
          {"optimizer_state", "optimizer state", plan.optimizerState},
          {"gradients", "gradients", plan.gradients},
          {"counters", "counters", plan.counters},
          {"arena", "arena", plan.arena},
          {"arguments_and_results", "arguments and results",
           plan.argumentsAndResults},
          {"slots", "slots", plan.slots}};
}
