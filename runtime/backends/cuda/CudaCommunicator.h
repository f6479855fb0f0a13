//===- CudaCommunicator.h - Collectives of ranks on one GPU -----*- C++ -*-===//
//
// Issues collectives on a stream. Each member reads its peers' buffers in the
// GPU's memory. Sums are in the members' order, so all members get the bits
// that the CPU's collectives give.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_CUDACOMMUNICATOR_H
#define HEDDLE_RT_BACKENDS_CUDA_CUDACOMMUNICATOR_H

#include "backends/cuda/CudaDevice.h"
#include "backends/cuda/Meetings.h"

namespace heddle::runtime::cuda {

/// The collectives of one rank on its stream of one number.
class CudaCommunicator final : public Communicator {
public:
  /// `groups` are this rank's views of the manifest's groups.
  CudaCommunicator(CudaDevice &device, int32_t stream,
                   std::vector<GroupView> groups,
                   std::shared_ptr<Meetings> meetings);
  ~CudaCommunicator() override;

  int32_t groupSize(int32_t group) const override;
  Status allReduce(int32_t group, Reduction reduction, DType type,
                   const void *in, void *out, int64_t count) override;
  Status allGather(int32_t group, DType type, const void *in, void *out,
                   int64_t count) override;
  Status reduceScatter(int32_t group, Reduction reduction, DType type,
                       const void *in, void *out, int64_t count) override;
  Status allToAll(int32_t group, DType type, const void *in, void *out,
                  int64_t count) override;
  Status broadcast(int32_t group, int32_t root, DType type, const void *in,
                   void *out, int64_t count) override;
  Status permute(int32_t group, const int32_t *sources, DType type,
                 const void *in, void *out, int64_t count) override;
  Status send(int32_t group, int32_t peer, DType type, const void *from,
              int64_t count) override;
  Status recv(int32_t group, int32_t peer, DType type, void *to,
              int64_t count) override;
  void abort(const Status &why) override { meetings->abort(why); }

private:
  /// What the part of a member does between the two meetings.
  using Part = std::function<Status(const Offers &offers, int32_t member)>;
  Status meet(const Collective &call, const Part &part);
  Expected<const GroupView *> viewOf(int32_t group) const;
  Status waitForAll(const Offers &offers, int32_t member);
  Expected<Event> record(Event &event);
  Status copy(void *to, const void *from, int64_t bytes);
  /// Reduces elements [inOffset, inOffset + count) of all inputs to some
  /// outputs, from outOffset on.
  Status reduce(const Offers &offers, std::vector<const void *> outs,
                int64_t inOffset, int64_t outOffset, int64_t count);

  CudaDevice &device;
  const int32_t stream;
  const std::vector<GroupView> groups;
  const std::shared_ptr<Meetings> meetings;
  /// By group: peers wait for them before and after this member's part.
  std::vector<std::pair<Event, Event>> events;
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_CUDACOMMUNICATOR_H
