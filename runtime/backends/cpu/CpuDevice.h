//===- CpuDevice.h - A rank on cores of this machine ------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_CPUDEVICE_H
#define HEDDLE_RT_BACKENDS_CPU_CPUDEVICE_H

#include "backends/cpu/kernels/AttentionLibrary.h"
#include "backends/cpu/kernels/MatmulLibrary.h"
#include "backends/cpu/threads/Streams.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "device/Device.h"

namespace heddle::runtime {

/// A rank on some cores. Stream 0 computes on all of them: on its own thread
/// and the workers of a pool. Every other stream has its own thread alone.
class CpuDevice : public heddle_rt_device {
public:
  /// With `spin`, idle threads watch memory before they sleep: see ThreadPool.
  CpuDevice(int32_t rank, int cores, bool spin, int streams = 1,
            const StreamOrder &order = {});
  ~CpuDevice() override;

  /// Returns the threads that run the calls of a stream.
  ThreadPool &threads(int32_t stream) { return lanes[size_t(stream)]->pool; }

  Expected<std::unique_ptr<Region>> allocate(size_t bytes) override;
  Status copyToDevice(void *to, const void *from, size_t bytes) override;
  Status copyToHost(void *to, const void *from, size_t bytes) override;
  size_t scratchBytes() const override;
  Status runOnHost(
      int64_t count, int64_t grain,
      const std::function<Status(int64_t begin, int64_t end)> &body) override;

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

  Status recordEvent(int32_t stream, int32_t event) override {
    return streams.recordEvent(stream, event);
  }
  Status waitEvent(int32_t stream, int32_t event) override {
    return streams.waitEvent(stream, event);
  }
  Status synchronize() override { return streams.synchronize(); }

protected:
  void dropWork() override { streams.dropCalls(); }

private:
  /// The threads and libraries of one stream.
  struct Lane {
    Lane(int threads, bool spin)
        : pool(threads, spin), matmul(makeMatmulLibrary(pool)),
          attention(pool) {}
    ThreadPool pool;
    std::unique_ptr<MatmulLibrary> matmul;
    AttentionLibrary attention;
  };

  /// Issues work(lane): see Streams::issue.
  template <typename Work>
  Status issue(int32_t stream, const Streams::Label &label, const Work &work);

  std::vector<std::unique_ptr<Lane>> lanes; ///< by stream

protected:
  Streams streams; ///< after `lanes`, which its threads use
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_CPUDEVICE_H
