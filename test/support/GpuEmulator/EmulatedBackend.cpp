//===- EmulatedBackend.cpp - Ranks whose kernels are a GPU's --------------===//

#include "EmulatedBackend.h"
#include "backends/cpu/CpuDevice.h"
#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "device/Backend.h"

using namespace heddle;
using namespace heddle::runtime;

namespace {

class EmulatedDevice final : public CpuDevice {
public:
  EmulatedDevice(int32_t rank, const DeviceOptions &options,
                 GpuEmulator &emulator)
      : CpuDevice(rank, /*cores=*/1, /*spin=*/false, options.streams,
                  options.streamOrder),
        emulator(emulator) {}

  Status launchKernel(int32_t stream, int32_t kernel,
                      std::span<const uint64_t> parameters) override {
    auto *words = reinterpret_cast<void *const *>(parameters.data());
    auto run = [this, kernel, count = parameters.size()](void *const *copied) {
      llvm::Error error = emulator.launch(
          size_t(kernel), {reinterpret_cast<const uint64_t *>(copied), count});
      return error ? Status::error(llvm::toString(std::move(error)))
                   : Status::success();
    };
    return streams.issue(stream, {WorkKind::Kernel, "launch"}, run,
                         {words, parameters.size()});
  }

private:
  GpuEmulator &emulator;
};

class EmulatedBackend final : public Backend {
public:
  explicit EmulatedBackend(GpuEmulator &emulator) : emulator(emulator) {}

  Status checkTarget(const std::string &,
                     const std::vector<std::string> &) const override {
    return Status::success();
  }
  Status checkDevices(int64_t) const override { return Status::success(); }
  Status checkMemory(int64_t, double) const override {
    return Status::success();
  }
  int defaultCores(int64_t) const override { return 1; }

  Expected<std::vector<std::unique_ptr<heddle_rt_device>>>
  makeDevices(const DeviceOptions &options) const override {
    std::vector<std::unique_ptr<heddle_rt_device>> devices;
    std::vector<std::vector<ThreadPool *>> pools;
    for (int32_t rank : options.ranks) {
      auto device = std::make_unique<EmulatedDevice>(rank, options, emulator);
      std::vector<ThreadPool *> &ofStreams = pools.emplace_back();
      for (int32_t stream = 0; stream < options.streams; ++stream)
        ofStreams.push_back(&device->threads(stream));
      devices.push_back(std::move(device));
    }
    auto communicators = makeThreadCommunicators(
        options.mesh, options.groups, pools,
        {options.collectiveTimeout, /*spin=*/false, options.ranks});
    for (size_t i = 0; i < devices.size(); ++i)
      devices[i]->communicators = std::move(communicators[i]);
    return devices;
  }

private:
  GpuEmulator &emulator;
};

} // namespace

std::unique_ptr<Backend> heddle::makeEmulatedBackend(GpuEmulator &emulator) {
  return std::make_unique<EmulatedBackend>(emulator);
}
