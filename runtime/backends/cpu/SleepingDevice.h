//===- SleepingDevice.h - A rank that sleeps, not computes ------*- C++ -*-===//
//
// Emulates a device of a cluster. A call of compute sleeps on its stream for
// the time that the emulated device would take, and touches no memory. Streams,
// events and collectives are those of a CpuDevice.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CPU_SLEEPINGDEVICE_H
#define HEDDLE_RT_BACKENDS_CPU_SLEEPINGDEVICE_H

#include "backends/cpu/CpuDevice.h"
#include "device/CallTimes.h"

namespace heddle::runtime {

class SleepingDevice final : public CpuDevice {
public:
  SleepingDevice(int32_t rank, int streams, const StreamOrder &order,
                 std::shared_ptr<const CallTimes> callTimes)
      : CpuDevice(rank, /*cores=*/1, /*spin=*/false, streams, order),
        callTimes(std::move(callTimes)), late(size_t(streams)) {}

  Status launch(int32_t stream, heddle_rt_kernel_fn kernel,
                std::span<void *const> buffers, std::span<const int64_t> words,
                int64_t blocks, int64_t grain) override;
  Status matmul(int32_t stream, const heddle_rt_matmul_desc &desc,
                const void *a, const void *b, void *c,
                const void *bias) override;
  Status attention(int32_t stream, const heddle_rt_attention_desc &desc,
                   const heddle_rt_attention_offsets &offsets,
                   const int64_t *step, const void *mask, const void *q,
                   const void *k, const void *v, void *o, float *lse) override;
  Status attentionGrad(int32_t stream, const heddle_rt_attention_desc &desc,
                       const heddle_rt_attention_offsets &offsets,
                       const int64_t *step, const void *mask, const void *q,
                       const void *k, const void *v, const void *o,
                       const float *lse, const void *d_o, void *dq, void *dk,
                       void *dv) override;
  Status embeddingGrad(int32_t stream, const int32_t *ids, int64_t numIds,
                       const void *rows, int32_t type, int64_t width,
                       int64_t firstRow, int64_t tableRows, bool accumulate,
                       float *tableGrad) override;
  Status rotaryTable(int32_t stream, const double *frequencies, int64_t half,
                     int64_t first, int64_t rows, float *cosines,
                     float *sines) override;
  Status copy(int32_t stream, const void *from, int64_t fromStride, void *to,
              int64_t toStride, int64_t blocks, int64_t bytes) override;
  Status fillZero(int32_t stream, void *to, int64_t bytes) override;
  Status collective(int32_t stream, const Collective &call) override;
  Status synchronize() override;

private:
  using Clock = std::chrono::steady_clock;

  /// Issues a call that sleeps.
  Status sleep(int32_t stream, const Streams::Label &label, double seconds);
  /// Sleeps on a stream's thread. Makes up for the delay of earlier wake-ups on
  /// this stream, so that delays do not add up over many short calls.
  void sleepOn(size_t stream, Clock::duration duration);

  const std::shared_ptr<const CallTimes> callTimes;
  /// By stream: how late its last sleep ended. Used by the stream's thread, and
  /// by the host while all streams are idle.
  std::vector<Clock::duration> late;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_SLEEPINGDEVICE_H
