//===- GpuFaultTest.cpp - Faults on a GPU are found -----------------------===//
//
// Plants faults between the runtime and the emulated GPU, and looks for the
// report of each. Also what a machine may lack.
//
//===----------------------------------------------------------------------===//

#include "GpuTraining.h"

using namespace heddle;
namespace cuda = heddle::runtime::cuda;

namespace {

using GpuFaultTest = GpuTraining;

CompileOptions forGpu() {
  CompileOptions options;
  options.targetGpu = "sm_80";
  return options;
}

TEST_F(GpuFaultTest, NoGpu) {
  ASSERT_TRUE(compile("gpt2", forGpu()));
  emulated::Machine machine;
  machine.gpus = 0;
  emulated::setMachine(machine);
  run(true);
  EXPECT_NE(message.find("expected an NVIDIA GPU, found none"),
            std::string::npos)
      << message;
  machine.gpus = 1;
  machine.driverVersion = 11040;
  emulated::setMachine(machine);
  run(true);
  EXPECT_NE(message.find("expected an NVIDIA driver for CUDA 12.0 or newer, "
                         "got one for CUDA 11.4"),
            std::string::npos)
      << message;
  machine = {};
  machine.major = 7;
  emulated::setMachine(machine);
  run(true);
  EXPECT_NE(message.find("the model was compiled for sm_80 and newer GPUs, "
                         "this machine has an emulated GPU (sm_70)"),
            std::string::npos)
      << message;
  machine = {};
  machine.memoryBytes = 1 << 20;
  emulated::setMachine(machine);
  run(true);
  EXPECT_NE(message.find("got 1 rank(s) with 0.00 GiB each"), std::string::npos)
      << message;
  emulated::setMachine({});
}

} // namespace
