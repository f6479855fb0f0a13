//===- TimeKernels.cpp - Times of single kernels --------------------------===//

#include "backends/cuda/TimeKernels.h"
#include "support/Message.h"

#include <algorithm>
#include <functional>

namespace heddle::runtime::cuda {

namespace {

constexpr int kWarmUp = 3, kLaunches = 20;
/// More than the cache of any GPU: launches take turns on copies of their
/// buffers that have so many bytes together.
constexpr size_t kColdBytes = size_t(256) << 20;
/// The bytes that are copied to measure the bandwidth.
constexpr size_t kCopyBytes = size_t(128) << 20;
/// Buffers begin at multiples of this, as those of a program do.
constexpr size_t kAlignment = 256;

/// A stream and two events, and memory that is freed by `release`.
class Timer {
public:
  explicit Timer(Card &card) : card(card), driver(card.driver()) {}
  ~Timer() {
    release();
    for (Event event : {begin, end})
      if (event)
        driver.eventDestroy(event);
    if (stream)
      driver.streamDestroy(stream);
  }

  Status start() {
    HEDDLE_RT_RETURN_IF_ERROR(card.use());
    HEDDLE_RT_RETURN_IF_ERROR(driver.check(
        driver.streamCreate(&stream, kStreamNonBlocking), "cuStreamCreate"));
    for (Event *event : {&begin, &end})
      HEDDLE_RT_RETURN_IF_ERROR(
          driver.check(driver.eventCreate(event, 0), "cuEventCreate"));
    return Status::success();
  }

  /// Returns memory that is zero.
  Expected<Address> allocate(size_t bytes) {
    Address address = 0;
    HEDDLE_RT_RETURN_IF_ERROR(
        driver.check(driver.memAlloc(&address, bytes), "cuMemAlloc")
            .in(concat(bytes, " bytes")));
    memory.push_back(address);
    HEDDLE_RT_RETURN_IF_ERROR(driver.check(
        driver.memsetD8Async(address, 0, bytes, stream), "cuMemsetD8Async"));
    HEDDLE_RT_RETURN_IF_ERROR(
        driver.check(driver.streamSynchronize(stream), "cuStreamSynchronize"));
    return address;
  }
  void release() {
    if (stream)
      driver.streamSynchronize(stream);
    for (Address address : memory)
      driver.memFree(address);
    memory.clear();
  }

  /// Returns the seconds of one of several calls of issue(number), which issues
  /// work on `stream`.
  Expected<double> time(const std::function<Status(int number)> &issue) {
    for (int i = 0; i < kWarmUp; ++i)
      HEDDLE_RT_RETURN_IF_ERROR(issue(i));
    HEDDLE_RT_RETURN_IF_ERROR(
        driver.check(driver.eventRecord(begin, stream), "cuEventRecord"));
    for (int i = 0; i < kLaunches; ++i)
      HEDDLE_RT_RETURN_IF_ERROR(issue(kWarmUp + i));
    HEDDLE_RT_RETURN_IF_ERROR(
        driver.check(driver.eventRecord(end, stream), "cuEventRecord"));
    HEDDLE_RT_RETURN_IF_ERROR(
        driver.check(driver.eventSynchronize(end), "cuEventSynchronize"));
    float milliseconds = 0;
    HEDDLE_RT_RETURN_IF_ERROR(
        driver.check(driver.eventElapsedTime(&milliseconds, begin, end),
                     "cuEventElapsedTime"));
    return double(milliseconds) * 1e-3 / kLaunches;
  }

  Card &card;
  const Driver &driver;
  Stream stream = nullptr;

private:
  Event begin = nullptr, end = nullptr;
  std::vector<Address> memory;
};

Expected<double> timeKernel(Timer &timer, const LoadedKernel &kernel) {
  const KernelInfo &info = *kernel.info;
  const Driver &driver = timer.driver;
  // A copy of the buffers, one after the other.
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (const KernelInfo::Parameter &parameter : info.parameters) {
    offsets.push_back(bytes);
    if (parameter.isBuffer)
      bytes += (std::max<size_t>(size_t(parameter.bytes), 1) + kAlignment - 1) /
               kAlignment * kAlignment;
  }
  bytes = std::max(bytes, kAlignment);
  Expected<Card::Memory> free = timer.card.memory();
  HEDDLE_RT_RETURN_IF_ERROR(free.status());
  size_t copies = std::clamp<size_t>(
      std::min(kColdBytes / bytes + 1, free->free / 4 * 3 / bytes), 1,
      size_t(kLaunches));
  Expected<Address> buffers = timer.allocate(bytes * copies);
  HEDDLE_RT_RETURN_IF_ERROR(buffers.status());
  // The parameters of all copies. Numbers are 0.
  std::vector<uint64_t> words;
  for (size_t copy = 0; copy < copies; ++copy)
    for (size_t i = 0; i < offsets.size(); ++i)
      words.push_back(info.parameters[i].isBuffer
                          ? *buffers + copy * bytes + offsets[i]
                          : 0);
  size_t tableBytes = offsets.size() * sizeof(uint64_t);
  std::vector<uint64_t> tables(copies);
  if (info.isTable) {
    Expected<Address> memory =
        timer.allocate(std::max<size_t>(tableBytes * copies, 1));
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    HEDDLE_RT_RETURN_IF_ERROR(driver.check(
        driver.memcpyHtoD(*memory, words.data(), tableBytes * copies),
        "cuMemcpyHtoD"));
    for (size_t copy = 0; copy < copies; ++copy)
      tables[copy] = *memory + copy * tableBytes;
  }
  return timer.time([&](int number) {
    size_t copy = size_t(number) % copies;
    std::vector<void *> pointers;
    if (info.isTable)
      pointers.push_back(&tables[copy]);
    else
      for (size_t i = 0; i < offsets.size(); ++i)
        pointers.push_back(&words[copy * offsets.size() + i]);
    return driver.check(
        driver.launchKernel(kernel.function, unsigned(info.grid), 1, 1,
                            unsigned(info.block), 1, 1, /*sharedMemBytes=*/0,
                            timer.stream, pointers.data(), nullptr),
        "cuLaunchKernel");
  });
}

/// Returns the bytes a second that a copy reads and writes; 0 if the GPU's
/// clock does not advance.
Expected<double> measureBandwidth(Timer &timer) {
  Expected<Card::Memory> free = timer.card.memory();
  HEDDLE_RT_RETURN_IF_ERROR(free.status());
  size_t bytes =
      std::max(std::min(kCopyBytes, free->free / 4) / 16 * 16, size_t(16));
  Expected<Address> from = timer.allocate(bytes);
  HEDDLE_RT_RETURN_IF_ERROR(from.status());
  Expected<Address> to = timer.allocate(bytes);
  HEDDLE_RT_RETURN_IF_ERROR(to.status());
  Expected<double> seconds = timer.time([&](int) {
    return timer.driver.check(
        timer.driver.memcpyDtoDAsync(*to, *from, bytes, timer.stream),
        "cuMemcpyDtoDAsync");
  });
  HEDDLE_RT_RETURN_IF_ERROR(seconds.status());
  return *seconds > 0 ? 2 * double(bytes) / *seconds : 0;
}

} // namespace

Expected<KernelTimes> timeKernels(Card &card,
                                  std::span<const LoadedKernel> kernels) {
  Timer timer(card);
  HEDDLE_RT_RETURN_IF_ERROR(timer.start());
  KernelTimes times{card.name(), 0, {}};
  Expected<double> bandwidth = measureBandwidth(timer);
  HEDDLE_RT_RETURN_IF_ERROR(bandwidth.status());
  times.bandwidth = *bandwidth;
  timer.release();
  for (const LoadedKernel &kernel : kernels) {
    const std::string &symbol = kernel.info->symbol;
    Expected<double> seconds = timeKernel(timer, kernel);
    if (!seconds.ok())
      return std::move(seconds).status().in(concat("kernel ", symbol));
    times.kernels.push_back({symbol, *seconds, kernel.info->workBytes});
    timer.release();
  }
  return times;
}

} // namespace heddle::runtime::cuda
