//===- CpuDevice.cpp - A rank on cores of this machine --------------------===//

#include "backends/cpu/CpuDevice.h"
#include "backends/cpu/CpuRegion.h"
#include "backends/cpu/kernels/EmbeddingGrad.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace heddle::runtime {

/// Bytes that one core copies or fills at a time: it does not pay to wake a
/// core for less.
static constexpr int64_t grainBytes = 256 << 10;

CpuDevice::CpuDevice(int32_t rank, int cores, bool spin, int numStreams,
                     const StreamOrder &order)
    : heddle_rt_device(rank), lanes([&] {
        std::vector<std::unique_ptr<Lane>> lanes;
        for (int stream = 0; stream < numStreams; ++stream)
          lanes.push_back(
              std::make_unique<Lane>(stream == 0 ? cores : 1, spin));
        return lanes;
      }()),
      streams(*this, numStreams, order, spin) {}

CpuDevice::~CpuDevice() = default;

Expected<std::unique_ptr<Region>> CpuDevice::allocate(size_t bytes) {
  auto region = std::make_unique<CpuRegion>();
  HEDDLE_RT_RETURN_IF_ERROR(region->allocate(bytes));
  return std::move(region);
}

Status CpuDevice::copyToDevice(void *to, const void *from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return Status::success();
}

Status CpuDevice::copyToHost(void *to, const void *from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return Status::success();
}

size_t CpuDevice::scratchBytes() const {
  size_t bytes = 0;
  for (const auto &lane : lanes)
    bytes += lane->matmul->scratchBytes() + lane->attention.scratchBytes();
  return bytes;
}

Status CpuDevice::runOnHost(
    int64_t count, int64_t grain,
    const std::function<Status(int64_t begin, int64_t end)> &body) {
  std::mutex mutex;
  Status first;
  threads(0).forRanges(count, grain, [&](int64_t begin, int64_t end) {
    Status status = body(begin, end);
    if (status.ok())
      return;
    std::lock_guard lock(mutex);
    if (first.ok())
      first = std::move(status);
  });
  return first;
}

template <typename Work>
Status CpuDevice::issue(int32_t stream, const Streams::Label &label,
                        const Work &work) {
  // `Streams` checks the stream before it runs anything.
  Lane *lane =
      size_t(stream) < lanes.size() ? lanes[size_t(stream)].get() : nullptr;
  return streams.issue(stream, label, [=] { return work(*lane); });
}

Status CpuDevice::launch(int32_t stream, heddle_rt_kernel_fn kernel,
                         std::span<void *const> buffers,
                         std::span<const int64_t> words, int64_t blocks,
                         int64_t grain) {
  auto run = [=, this](void *const *copied) {
    ThreadPool &pool = threads(stream);
    // There are more ranges than cores, so a core that starts late or has
    // costly blocks does not delay the end.
    int64_t ranges = int64_t(pool.size()) * 4;
    int64_t range =
        pool.size() == 1
            ? std::max<int64_t>(1, blocks)
            : std::max({int64_t(1), grain, (blocks + ranges - 1) / ranges});
    pool.forRanges(blocks, range, [&](int64_t begin, int64_t end) {
      kernel(copied, begin, end);
    });
    return Status::success();
  };
  return streams.issue(stream, {WorkKind::Kernel, "launch"}, run, buffers,
                       words);
}

Status CpuDevice::matmul(int32_t stream, const heddle_rt_matmul_desc &desc,
                         const void *a, const void *b, void *c,
                         const void *bias) {
  return issue(stream, {WorkKind::Matmul, "matmul"},
               [=, desc = &desc](Lane &lane) {
                 return lane.matmul->run(*desc, a, b, c, bias);
               });
}

Status CpuDevice::attention(int32_t stream,
                            const heddle_rt_attention_desc &desc,
                            const heddle_rt_attention_offsets &offsets,
                            const int64_t *step, const void *mask,
                            const void *q, const void *k, const void *v,
                            void *o, float *lse) {
  return issue(stream, {WorkKind::Attention, "attention"},
               [=, desc = &desc](Lane &lane) {
                 return lane.attention.forward(*desc, offsets, step, mask, q, k,
                                               v, o, lse);
               });
}

Status CpuDevice::attentionGrad(int32_t stream,
                                const heddle_rt_attention_desc &desc,
                                const heddle_rt_attention_offsets &offsets,
                                const int64_t *step, const void *mask,
                                const void *q, const void *k, const void *v,
                                const void *o, const float *lse,
                                const void *d_o, void *dq, void *dk, void *dv) {
  return issue(stream, {WorkKind::Attention, "attention_grad"},
               [=, desc = &desc](Lane &lane) {
                 return lane.attention.backward(*desc, offsets, step, mask, q,
                                                k, v, o, lse, d_o, dq, dk, dv);
               });
}

Status CpuDevice::embeddingGrad(int32_t stream, const int32_t *ids,
                                int64_t numIds, const void *rows, int32_t type,
                                int64_t width, int64_t firstRow,
                                int64_t tableRows, bool accumulate,
                                float *tableGrad) {
  return issue(stream, {WorkKind::Kernel, "embedding_grad"}, [=](Lane &lane) {
    return runtime::embeddingGrad(lane.pool, ids, numIds, rows, type, width,
                                  firstRow, tableRows, accumulate, tableGrad);
  });
}

Status CpuDevice::rotaryTable(int32_t stream, const double *frequencies,
                              int64_t half, int64_t first, int64_t rows,
                              float *cosines, float *sines) {
  return issue(stream, {WorkKind::Kernel, "rotary_table"}, [=](Lane &lane) {
    runtime::rotaryTable(lane.pool, frequencies, half, first, rows, cosines,
                         sines);
    return Status::success();
  });
}

Status CpuDevice::copy(int32_t stream, const void *from, int64_t fromStride,
                       void *to, int64_t toStride, int64_t blocks,
                       int64_t bytes) {
  return issue(stream, {WorkKind::Copy, "copy"}, [=](Lane &lane) {
    auto *source = static_cast<const char *>(from);
    auto *target = static_cast<char *>(to);
    if (blocks == 1) {
      lane.pool.forRanges(bytes, grainBytes, [&](int64_t begin, int64_t end) {
        std::memcpy(target + begin, source + begin, size_t(end - begin));
      });
      return Status::success();
    }
    int64_t grain =
        std::max<int64_t>(1, grainBytes / std::max<int64_t>(1, bytes));
    lane.pool.forRanges(blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block)
        std::memcpy(target + block * toStride, source + block * fromStride,
                    size_t(bytes));
    });
    return Status::success();
  });
}

Status CpuDevice::fillZero(int32_t stream, void *to, int64_t bytes) {
  return issue(stream, {WorkKind::Copy, "fill_zero"}, [=](Lane &lane) {
    lane.pool.forRanges(bytes, grainBytes, [&](int64_t begin, int64_t end) {
      std::memset(static_cast<char *>(to) + begin, 0, size_t(end - begin));
    });
    return Status::success();
  });
}

Status CpuDevice::collective(int32_t stream, const Collective &call) {
  if (streams.order().kind != StreamOrder::Kind::Natural && call.in != call.out)
    HEDDLE_RT_RETURN_IF_ERROR(
        issue(stream, {WorkKind::Copy, "poison"}, [=, this](Lane &) {
          int32_t members =
              communicators[size_t(stream)]->groupSize(call.group);
          if (int64_t bytes = call.bytesOut(members); bytes > 0)
            std::memset(call.out, 0xff, size_t(bytes));
          return Status::success();
        }));
  return issue(stream, {WorkKind::Collective, name(call.kind)},
               [=, this](Lane &) {
                 Collective timed = call;
                 timed.ready = streams.getReadyTime(stream);
                 return communicators[size_t(stream)]->perform(timed);
               });
}

} // namespace heddle::runtime
