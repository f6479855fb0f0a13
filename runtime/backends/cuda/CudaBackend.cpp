//===- CudaBackend.cpp - Ranks on an NVIDIA GPU ---------------------------===//

#include "backends/cuda/CudaBackend.h"
#include "backends/Backends.h"
#include "backends/cuda/CudaCommunicator.h"
#include "backends/cuda/CudaDevice.h"
#include "backends/cuda/TimeKernels.h"
#include "support/Message.h"
#include "support/ReadFile.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace heddle::runtime {

namespace cuda {

namespace {

/// Ranks on one GPU take turns on it: more than these would hardly progress.
constexpr int64_t kMostRanks = 64;
/// Memory that a session takes on the GPU after its check of memory and that is
/// not known then: the code that cuBLASLt and cuDNN load with their first
/// calls, graphs, descriptors and tables of rotary positions. No GPU was at
/// hand to measure it: the number is a guess. The libraries have hundreds of
/// MiB of code, of which a program uses a few kernels.
constexpr double kReserveBytes = double(256 << 20);
/// In the artifact's folder.
constexpr const char *kChoicesFile = "products.json";

/// Through how many queues the driver sends all streams: by default, at most.
constexpr int kDefaultQueues = 8, kMostQueues = 32;

/// Tells on stderr if streams that wait for emulated links share queues with
/// others.
void remarkOnQueues(size_t ranks, int streams) {
  const char *set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  int queues =
      set ? std::clamp(std::atoi(set), 1, kMostQueues) : kDefaultQueues;
  int total = int(ranks) * streams;
  if (ranks < 2 || total <= queues)
    return;
  std::string hint = queues == kMostQueues
                         ? "choose a smaller mesh"
                         : concat("set CUDA_DEVICE_MAX_CONNECTIONS=",
                                  std::min(total, kMostQueues), " (at most ",
                                  kMostQueues, ")");
  std::fprintf(
      stderr,
      "heddle: %d streams (%zu ranks with %d each) share %d queue%s of "
      "the GPU, so one that waits for an emulated link can hold back "
      "others: %s\n",
      total, ranks, streams, queues, queues == 1 ? "" : "s", hint.c_str());
}

class CudaBackend final : public Backend {
public:
  explicit CudaBackend(std::function<Expected<Libraries>()> loadLibraries)
      : loadLibraries(std::move(loadLibraries)) {}

  Status checkTarget(const CodeInfo &code) const override {
    HEDDLE_RT_RETURN_IF_ERROR(cpuBackend().checkTarget(code));
    auto card = open();
    HEDDLE_RT_RETURN_IF_ERROR(card.status());
    HEDDLE_RT_RETURN_IF_ERROR(checkChip(**card, code.chip));
    std::lock_guard lock(mutex);
    forDevices = *card;
    return Status::success();
  }

  Status checkDevices(int64_t devices) const override {
    return devices <= kMostRanks
               ? Status::success()
               : errorOf("expected at most ", kMostRanks,
                         " ranks on one GPU, got ", devices,
                         ": choose a smaller mesh, or compile only");
  }

  Status checkMemory(int64_t devices,
                     std::span<const MemoryPart> parts) const override {
    auto card = open();
    HEDDLE_RT_RETURN_IF_ERROR(card.status());
    Expected<Card::Memory> memory = (*card)->memory();
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    double total = double(devices) * totalBytes(parts) + kReserveBytes;
    if (total <= double(memory->free))
      return Status::success();
    auto sizeOf = [](double bytes) {
      bool isLarge = bytes >= double(1 << 30);
      char text[32];
      std::snprintf(text, sizeof text, isLarge ? "%.2f GiB" : "%.2f MiB",
                    bytes / double(isLarge ? 1 << 30 : 1 << 20));
      return std::string(text);
    };
    std::string list;
    for (const MemoryPart &part : parts)
      if (part.bytes > 0)
        list += concat(list.empty() ? "" : ", ", sizeOf(part.bytes), " for ",
                       part.name);
    return errorOf(
        "expected at most ", sizeOf(double(memory->free)),
        " of memory, the free part of the ", sizeOf(double(memory->total)),
        " of ", (*card)->name(), ", got ", sizeOf(total), ": ", devices,
        " rank(s) that each need ", list, ", and ", sizeOf(kReserveBytes),
        " in reserve for code of the libraries and graphs: choose a "
        "smaller model or batch, or fewer ranks");
  }

  int defaultCores(int64_t devices) const override {
    return cpuBackend().defaultCores(devices);
  }

  Expected<std::vector<std::unique_ptr<heddle_rt_device>>>
  makeDevices(const DeviceOptions &options) const override {
    // Keeps the GPU open until this function returns. After that, the devices
    // keep it open, if there are any.
    std::shared_ptr<Card> kept;
    {
      std::lock_guard lock(mutex);
      kept = std::move(forDevices);
    }
    if (options.job)
      return error("expected all ranks in one process on a GPU, got a job of "
                   "several processes: ranks on several GPUs are not served "
                   "yet");
    if (options.callTimes)
      return error("expected a GPU that computes, got emulated computation: "
                   "emulate the links of a cluster alone, or compile the model "
                   "without --target-gpu");
    auto card = open();
    HEDDLE_RT_RETURN_IF_ERROR(card.status());
    auto kernels = load(**card, *options.code, options.directory);
    HEDDLE_RT_RETURN_IF_ERROR(kernels.status());
    auto shared =
        std::make_shared<const std::vector<LoadedKernel>>(std::move(*kernels));
    // Before anything is allocated: a library that is missing, or needs a newer
    // driver, is an error of the machine.
    if (options.products)
      HEDDLE_RT_RETURN_IF_ERROR((*card)->products().status());
    auto meetings = std::make_shared<Meetings>(options.collectiveTimeout);
    auto choices =
        std::make_shared<ProductChoices>(options.directory / kChoicesFile);
    if (options.network)
      remarkOnQueues(options.ranks.size(), options.streams);
    std::shared_ptr<const LinkClocks> clocks;
    std::vector<std::unique_ptr<heddle_rt_device>> devices;
    for (int32_t rank : options.ranks) {
      auto device = std::make_unique<CudaDevice>(rank, *card, shared,
                                                 options.coresPerDevice);
      HEDDLE_RT_RETURN_IF_ERROR(device->start(options.streams));
      device->shareChoices(choices);
      device->expectProducts(options.products);
      std::error_code noFile;
      auto bytes = std::filesystem::file_size(
          options.directory / options.code->library, noFile);
      device->expectUploads(*options.code, noFile ? 0 : size_t(bytes));
      HEDDLE_RT_RETURN_IF_ERROR(device->prepareAttention(
          parseAttentionChoice(options.code->attention), options.attentions));
      if (options.network && !clocks) {
        auto made = LinkClocks::create(*device, options.network->links(),
                                       options.collectiveTimeout);
        HEDDLE_RT_RETURN_IF_ERROR(made.status());
        clocks = std::move(*made);
      }
      std::vector<GroupView> groups;
      for (const GroupInfo &group : options.groups) {
        groups.push_back(groupOf(options.mesh, group, rank));
        device->hasPeers |=
            groups.back().member >= 0 && groups.back().ranks.size() > 1;
      }
      for (int32_t stream = 0; stream < options.streams; ++stream)
        device->communicators.push_back(std::make_unique<CudaCommunicator>(
            *device, stream, groups, meetings, clocks));
      devices.push_back(std::move(device));
    }
    return devices;
  }

  Expected<KernelTimes>
  timeKernels(const CodeInfo &code,
              const std::filesystem::path &directory) const override {
    HEDDLE_RT_RETURN_IF_ERROR(checkTarget(code));
    auto card = open();
    HEDDLE_RT_RETURN_IF_ERROR(card.status());
    auto kernels = load(**card, code, directory);
    HEDDLE_RT_RETURN_IF_ERROR(kernels.status());
    return cuda::timeKernels(**card, *kernels);
  }

private:
  /// Loads the kernels of an artifact.
  static Expected<std::vector<LoadedKernel>>
  load(Card &card, const CodeInfo &code,
       const std::filesystem::path &directory) {
    std::filesystem::path file = directory / code.ptx;
    std::optional<std::string> ptx = readFile(file);
    if (!ptx)
      return errorOf("cannot read ", file.string(),
                     ": expected the kernels of a compiled model: compile it "
                     "again");
    return card.load(*ptx, file.string(), code);
  }

  /// Returns the GPU, which stays open as long as a session uses it.
  Expected<std::shared_ptr<Card>> open() const {
    std::lock_guard lock(mutex);
    if (std::shared_ptr<Card> card = opened.lock())
      return card;
    Expected<Libraries> libraries = loadLibraries();
    HEDDLE_RT_RETURN_IF_ERROR(libraries.status());
    Expected<std::shared_ptr<Card>> card = Card::open(*libraries);
    HEDDLE_RT_RETURN_IF_ERROR(card.status());
    opened = *card;
    return *card;
  }

  const std::function<Expected<Libraries>()> loadLibraries;
  mutable std::mutex mutex;
  mutable std::weak_ptr<Card> opened; ///< guarded by `mutex`
  /// Keeps the GPU open until devices are made. Guarded by `mutex`.
  mutable std::shared_ptr<Card> forDevices;
};

} // namespace

std::unique_ptr<Backend>
makeBackend(std::function<Expected<Libraries>()> loadLibraries) {
  return std::make_unique<CudaBackend>(std::move(loadLibraries));
}

} // namespace cuda

std::string describeGpu() {
  Expected<cuda::Driver> driver = cuda::loadDriver();
  if (!driver.ok())
    return "";
  Expected<std::string> text = cuda::Card::describe(*driver);
  return text.ok() ? *text : "";
}

const Backend &cudaBackend() {
  static const std::unique_ptr<Backend> backend =
      cuda::makeBackend([]() -> Expected<cuda::Libraries> {
        Expected<cuda::Driver> driver = cuda::loadDriver();
        HEDDLE_RT_RETURN_IF_ERROR(driver.status());
        return cuda::Libraries{*driver};
      });
  return *backend;
}

} // namespace heddle::runtime
