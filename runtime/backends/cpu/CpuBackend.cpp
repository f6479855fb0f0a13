//===- CpuBackend.cpp - Ranks on cores of this machine --------------------===//

#include "backends/Backends.h"
#include "backends/cpu/CpuDevice.h"
#include "backends/cpu/CpuFeatures.h"
#include "backends/cpu/Machine.h"
#include "backends/cpu/SleepingDevice.h"
#include "backends/cpu/communicators/ProcessCommunicator.h"
#include "backends/cpu/threads/CoreBinding.h"
#include "communicators/EmptyMessages.h"
#include "communicators/EmulatedLinks.h"

#include <algorithm>
#include <optional>
#include <thread>

namespace heddle::runtime {

namespace {

class CpuBackend final : public Backend {
public:
  Status checkTarget(const CodeInfo &code) const override {
    return checkCpu(code.triple, code.features);
  }
  Status checkDevices(int64_t devices) const override {
    return checkCores(devices);
  }
  Status checkMemory(int64_t devices,
                     std::span<const MemoryPart> parts) const override {
    return runtime::checkMemory(devices, totalBytes(parts));
  }
  int defaultCores(int64_t devices) const override {
    return std::max(
        1, int(int64_t(std::thread::hardware_concurrency()) / devices));
  }

  Expected<std::vector<std::unique_ptr<heddle_rt_device>>>
  makeDevices(const DeviceOptions &options) const override {
    int64_t processes = options.job ? options.job->processesOnHost() : 1;
    bool spin = processes * int64_t(options.ranks.size()) *
                    (options.coresPerDevice + options.streams - 1) <=
                int64_t(std::thread::hardware_concurrency());
    std::vector<std::unique_ptr<heddle_rt_device>> devices;
    std::vector<std::vector<ThreadPool *>> pools;
    std::optional<CoreBinding> binding;
    if (options.network)
      binding.emplace(int64_t(options.ranks.size()), options.coresPerDevice);
    for (int32_t rank : options.ranks) {
      if (binding)
        binding->bindTo(int64_t(devices.size()));
      std::unique_ptr<CpuDevice> device;
      if (options.callTimes)
        device = std::make_unique<SleepingDevice>(
            rank, options.streams, options.streamOrder, options.callTimes);
      else
        device =
            std::make_unique<CpuDevice>(rank, options.coresPerDevice, spin,
                                        options.streams, options.streamOrder);
      std::vector<ThreadPool *> &ofStreams = pools.emplace_back();
      for (int32_t stream = 0; stream < options.streams; ++stream)
        ofStreams.push_back(&device->threads(stream));
      devices.push_back(std::move(device));
    }
    ThreadCommunicatorOptions ofCommunicators{options.collectiveTimeout, spin,
                                              options.ranks};
    std::vector<std::vector<std::unique_ptr<Communicator>>> communicators;
    if (options.job) {
      auto made = makeProcessCommunicators(options.mesh, options.groups, pools,
                                           options.job, options.staging,
                                           ofCommunicators);
      HEDDLE_RT_RETURN_IF_ERROR(made.status());
      communicators = std::move(*made);
    } else {
      communicators = makeThreadCommunicators(options.mesh, options.groups,
                                              pools, ofCommunicators);
    }
    if (options.callTimes)
      communicators = emptyMessages(std::move(communicators));
    if (options.network)
      communicators =
          emulateLinks(std::move(communicators), options.mesh, options.groups,
                       options.network, options.collectiveTimeout);
    for (size_t i = 0; i < devices.size(); ++i)
      devices[i]->communicators = std::move(communicators[i]);
    return devices;
  }
};

} // namespace

const Backend &cpuBackend() {
  static const CpuBackend backend;
  return backend;
}

} // namespace heddle::runtime
