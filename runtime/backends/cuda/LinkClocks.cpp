//===- LinkClocks.cpp - Emulated links of ranks on a GPU ------------------===//

#include "backends/cuda/LinkClocks.h"
#include "support/Message.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace heddle::runtime::cuda {

/// Rounds up, to at most 30 years.
static uint64_t nanoseconds(double seconds) {
  return uint64_t(std::ceil(std::min(seconds, 1e9) * 1e9));
}

FlowTimes timesOf(const Traffic &traffic, const Links &links) {
  std::map<int32_t, double> busy;
  double latency = 0, alone = 0;
  for (const Phase &phase : traffic) {
    double longest = 0;
    for (auto [link, messages] : phase.loads) {
      double seconds = phase.bytes * double(messages) / links.capacity(link);
      busy[link] += seconds;
      longest = std::max(longest, seconds);
    }
    latency += phase.latency;
    alone += phase.latency + longest;
  }
  FlowTimes times{{}, nanoseconds(latency), nanoseconds(alone)};
  for (auto [link, seconds] : busy)
    times.loads.push_back({uint64_t(link), nanoseconds(seconds)});
  return times;
}

Expected<std::shared_ptr<const LinkClocks>>
LinkClocks::create(CudaDevice &device, const Links &links,
                   std::chrono::milliseconds timeout) {
  const std::vector<uint64_t> zeros(size_t(links.count()) + 1);
  size_t bytes = zeros.size() * sizeof(uint64_t);
  Expected<Address> clocks = device.reserve(bytes);
  HEDDLE_RT_RETURN_IF_ERROR(clocks.status());
  HEDDLE_RT_RETURN_IF_ERROR(device.copyToDevice(
      reinterpret_cast<void *>(*clocks), zeros.data(), bytes));
  return std::shared_ptr<const LinkClocks>(
      new LinkClocks(links, timeout, *clocks));
}

Status LinkClocks::begin(CudaDevice &device, int32_t stream,
                         const Traffic &traffic, Address end) const {
  FlowTimes times = timesOf(traffic, links());
  if (times.alone > uint64_t(std::chrono::nanoseconds(timeout).count()))
    return errorOf("expected at most ", double(timeout.count()) / 1000,
                   " s on the emulated links, the timeout of collectives, got ",
                   double(times.alone) * 1e-9,
                   " s: raise the bandwidth of the emulated cluster");
  Expected<const void *> loads = device.upload(
      times.loads.data(), times.loads.size() * sizeof(FlowTimes::Load));
  HEDDLE_RT_RETURN_IF_ERROR(loads.status());
  const std::array<uint64_t, 6> arguments{reinterpret_cast<uint64_t>(*loads),
                                          times.loads.size(),
                                          clocks,
                                          times.latency,
                                          times.alone,
                                          end};
  return device.launchLibrary(stream, "heddle_begin_flow", 1, arguments);
}

Address LinkClocks::isStopped() const {
  return clocks + size_t(links().count()) * sizeof(uint64_t);
}

Status LinkClocks::end(CudaDevice &device, int32_t stream, Address end) const {
  return device.launchLibrary(stream, "heddle_end_flow", 1,
                              std::array<uint64_t, 2>{end, isStopped()});
}

Status LinkClocks::stop(CudaDevice &device) const {
  const uint64_t yes = 1;
  return device.copyToDevice(reinterpret_cast<void *>(isStopped()), &yes,
                             sizeof yes);
}

} // namespace heddle::runtime::cuda
