//===- LinkClocks.h - Emulated links of ranks on a GPU ----------*- C++ -*-===//
//
// Makes communication on a stream as slow as a network. The GPU's memory holds
// a clock for each link: the time at which the link has carried all flows so
// far. A kernel begins a flow: it moves the clocks of the flow's links, and so
// knows when the flow ends. A second kernel, behind the copies of the data,
// lasts until then.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_LINKCLOCKS_H
#define HEDDLE_RT_BACKENDS_CUDA_LINKCLOCKS_H

#include "backends/cuda/CudaDevice.h"
#include "communicators/Links.h"

#include <chrono>

namespace heddle::runtime::cuda {

/// The times of a flow, in nanoseconds.
struct FlowTimes {
  struct Load {
    uint64_t link, busy; ///< busy: how long the flow needs all of the link
    bool operator==(const Load &) const = default;
  };
  std::vector<Load> loads;
  uint64_t latency = 0;
  uint64_t alone = 0; ///< of a flow that has the network for itself
};
FlowTimes timesOf(const Traffic &traffic, const Links &links);

/// The links of a session. Any thread may call it.
class LinkClocks {
public:
  /// The clocks are in memory of `device`, which must outlive all flows.
  /// `timeout` is that of collectives.
  static Expected<std::shared_ptr<const LinkClocks>>
  create(CudaDevice &device, const Links &links,
         std::chrono::milliseconds timeout);

  const Links &links() const { return network; }

  /// Issues the begin of a flow on a stream. It writes to `end`, an address of
  /// the GPU's memory, when the flow ends. Error: the flow takes longer than
  /// the timeout.
  Status begin(CudaDevice &device, int32_t stream, const Traffic &traffic,
               Address end) const;
  /// Lets the stream wait for the end of the flow.
  Status end(CudaDevice &device, int32_t stream, Address end) const;
  /// Ends all waits for flows, now and later.
  Status stop(CudaDevice &device) const;

private:
  LinkClocks(const Links &links, std::chrono::milliseconds timeout,
             Address clocks)
      : network(links), timeout(timeout), clocks(clocks) {}
  Address isStopped() const;

  const Links network;
  const std::chrono::milliseconds timeout;
  /// A number of 8 bytes for each link. One more is set when waits must end.
  const Address clocks;
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_LINKCLOCKS_H
