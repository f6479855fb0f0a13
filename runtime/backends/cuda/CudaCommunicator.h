//===- CudaCommunicator.h - Collectives of ranks on one GPU -----*- C++ -*-===//
//
// Issues collectives on a stream. Each member reads its peers' buffers in the
// GPU's memory. Sums are in the members' order, so all members get the bits
// that the CPU's collectives give.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_CUDACOMMUNICATOR_H
#define HEDDLE_RT_BACKENDS_CUDA_CUDACOMMUNICATOR_H

#include "backends/cuda/LinkClocks.h"
#include "backends/cuda/Meetings.h"
#include "communicators/CheckedCommunicator.h"

namespace heddle::runtime::cuda {

/// The collectives of one rank on one of its streams.
class CudaCommunicator final : public CheckedCommunicator {
public:
  /// `groups` are this rank's views of the manifest's groups. `clocks` are the
  /// emulated links of all ranks; null: none.
  CudaCommunicator(CudaDevice &device, int32_t stream,
                   std::vector<GroupView> groups,
                   std::shared_ptr<Meetings> meetings,
                   std::shared_ptr<const LinkClocks> clocks = nullptr);
  ~CudaCommunicator() override;

  void abort(const Status &why) override;

private:
  Status run(const Collective &call) override;
  Status send(const Collective &call);
  Status receive(const Collective &call);
  Status wait(Event event);
  /// Issues this member's part of a collective, between the two meetings.
  Status exchange(const Collective &call, const Offers &offers, int32_t member);
  /// Copies `bytes` bytes from each member's buffer to `out`, one after the
  /// other, starting at byte `first` of the buffer.
  Status copyFromAll(const Offers &offers, int64_t first, int64_t bytes,
                     void *out);
  Status waitForAll(const Offers &offers, int32_t member);
  Expected<Event> record(Event &event);
  /// Begins a flow on the emulated links.
  Status beginFlow(const Collective &call, const Traffic &traffic);
  Status endFlow();
  Status copy(void *to, const void *from, int64_t bytes);
  /// Reduces elements [inOffset, inOffset + count) of all inputs to some
  /// outputs, from outOffset on.
  Status reduce(const Offers &offers, std::vector<const void *> outs,
                int64_t inOffset, int64_t outOffset, int64_t count);

  CudaDevice &device;
  const int32_t stream;
  const std::shared_ptr<Meetings> meetings;
  const std::shared_ptr<const LinkClocks> clocks;
  Address flowEnd = 0; ///< where the end of this stream's flow is; 0: nowhere
  /// By group: the events that peers wait for, before and after this member's
  /// part.
  std::vector<std::pair<Event, Event>> events;
  std::vector<std::unique_ptr<Message>> messages; ///< that this rank has sent
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_CUDACOMMUNICATOR_H
