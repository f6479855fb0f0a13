//===- GpuWorld.cpp - Conformance suite of ranks on a GPU -----------------===//

#include "backends/cuda/CudaCommunicator.h"
#include "test/support/EmulatedCuda/EmulatedCuda.h"
#include "test/unit/Runtime/Communicators/World.h"

using namespace heddle;
using namespace heddle::runtime;

namespace {

/// Runs collectives of buffers in the host's memory on a GPU: copies them
/// there, waits for the end, and copies the results back.
class OnGpu final : public Communicator {
public:
  explicit OnGpu(cuda::CudaDevice &device) : device(device) {}

  int32_t groupSize(int32_t group) const override {
    return device.communicators[0]->groupSize(group);
  }
  Status perform(const Collective &call) override {
    int32_t members = groupSize(call.group);
    auto bytesIn = size_t(call.bytesIn(members));
    auto bytesOut = size_t(call.bytesOut(members));
    bool isInPlace = call.in == call.out;
    auto in = device.allocate(
        std::max({bytesIn, isInPlace ? bytesOut : size_t(0), size_t(1)}));
    HEDDLE_RT_RETURN_IF_ERROR(in.status());
    auto out = device.allocate(std::max(bytesOut, size_t(1)));
    HEDDLE_RT_RETURN_IF_ERROR(out.status());
    Collective onGpu = call;
    onGpu.in = (*in)->data();
    onGpu.out = isInPlace ? (*in)->data() : (*out)->data();
    HEDDLE_RT_RETURN_IF_ERROR(
        device.copyToDevice((*in)->data(), call.in, bytesIn));
    HEDDLE_RT_RETURN_IF_ERROR(device.collective(0, onGpu));
    HEDDLE_RT_RETURN_IF_ERROR(device.synchronize());
    return device.copyToHost(call.out, onGpu.out, bytesOut);
  }
  void abort(const Status &why) override {
    device.communicators[0]->abort(why);
  }

private:
  cuda::CudaDevice &device;
};

class GpuWorld final : public World {
public:
  explicit GpuWorld(const WorldOptions &options) {
    int64_t ranks = 1;
    for (const MeshAxis &axis : options.mesh)
      ranks *= axis.size;
    auto card = cuda::Card::open(
        {emulated::getDriver(), [](int) -> Expected<cuda::blas::CublasLt> {
           return emulated::getCublasLt();
         }});
    EXPECT_TRUE(card.ok()) << card.message();
    auto kernels = std::make_shared<const std::vector<cuda::LoadedKernel>>();
    auto meetings = std::make_shared<cuda::Meetings>(options.timeout);
    std::shared_ptr<const cuda::LinkClocks> clocks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      auto device =
          std::make_unique<cuda::CudaDevice>(int32_t(rank), *card, kernels, 1);
      Status started = device->start(1);
      EXPECT_TRUE(started.ok()) << started.message();
      if (options.network && !clocks) {
        auto made = cuda::LinkClocks::create(*device, options.network->links(),
                                             options.timeout);
        EXPECT_TRUE(made.ok()) << made.message();
        clocks = *made;
      }
      std::vector<GroupView> views;
      for (const std::vector<int32_t> &axes : options.groups)
        views.push_back(groupOf(options.mesh, axes, int32_t(rank)));
      device->communicators.push_back(std::make_unique<cuda::CudaCommunicator>(
          *device, 0, std::move(views), meetings, clocks));
      devices.push_back(std::move(device));
    }
  }
  ~GpuWorld() override {
    devices.clear();
    EXPECT_EQ(emulated::takeFault(), "");
  }

  void run(const std::function<void(int32_t, Communicator &)> &body) override {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < devices.size(); ++rank)
      threads.emplace_back([&, rank] {
        EXPECT_TRUE(devices[rank]->gpu().use().ok());
        OnGpu communicator(*devices[rank]);
        body(int32_t(rank), communicator);
      });
    for (std::thread &thread : threads)
      thread.join();
  }

private:
  std::vector<std::unique_ptr<cuda::CudaDevice>> devices;
};

} // namespace

std::vector<WorldKind> heddle::runtime::communicatorBackends() {
  return {{"gpu", [](const WorldOptions &options) -> std::unique_ptr<World> {
             return std::make_unique<GpuWorld>(options);
           }}};
}
