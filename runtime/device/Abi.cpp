//===- Abi.cpp - The calls of generated code ------------------------------===//
//
// Implements each function of heddle_rt/abi.h by a call of the library that
// does the work. Adds the call's time to the device's total for that kind of
// work.
//
//===----------------------------------------------------------------------===//

#include "device/Device.h"
#include "kernels/AttentionLibrary.h"
#include "kernels/MatmulLibrary.h"
#include "kernels/Tables.h"

#include <algorithm>
#include <cstring>

using namespace heddle::runtime;

namespace {

/// Bytes that one core copies or fills at a time: it does not pay to wake a
/// core for less.
constexpr int64_t grainBytes = 256 << 10;

Status checkType(int32_t type) {
  return byteSize(DType(type)) ? Status::success()
                               : errorOf("element type ", type, " is unknown");
}

Status checkReduction(int32_t reduction) {
  return reduction == HEDDLE_RT_SUM || reduction == HEDDLE_RT_MAX
             ? Status::success()
             : errorOf("reduction ", reduction, " is unknown");
}

/// Checks the element type, as all collectives need, and runs a collective.
template <typename Work>
heddle_rt_status collective(heddle_rt_device *device, int32_t stream,
                            const char *operation, int32_t type, Work &&work) {
  return device->issue(stream, WorkKind::Collective, operation, nullptr,
                       [&]() -> Status {
                         HEDDLE_RT_RETURN_IF_ERROR(checkType(type));
                         return work(*device->communicator, DType(type));
                       });
}

} // namespace

extern "C" {

heddle_rt_status heddle_rt_launch(heddle_rt_device *device, int32_t stream,
                                  heddle_rt_kernel_fn kernel,
                                  void *const *buffers, int32_t /*num_buffers*/,
                                  int64_t blocks, int64_t grain) {
  return device->issue(
      stream, WorkKind::Kernel, "launch",
      reinterpret_cast<const void *>(kernel), [&] {
        // There are more ranges than cores, so a core that starts late or has
        // costly blocks does not delay the end.
        int64_t ranges = int64_t(device->pool.size()) * 4;
        int64_t range =
            device->pool.size() == 1
                ? std::max<int64_t>(1, blocks)
                : std::max({int64_t(1), grain, (blocks + ranges - 1) / ranges});
        device->pool.forRanges(blocks, range, [&](int64_t begin, int64_t end) {
          kernel(buffers, begin, end);
        });
        return Status::success();
      });
}

heddle_rt_status heddle_rt_matmul(heddle_rt_device *device, int32_t stream,
                                  const heddle_rt_matmul_desc *desc,
                                  const void *a, const void *b, void *c,
                                  const void *bias) {
  return device->issue(stream, WorkKind::Matmul, "matmul", desc, [&] {
    return device->matmul->run(*desc, a, b, c, bias);
  });
}

heddle_rt_status heddle_rt_attention(heddle_rt_device *device, int32_t stream,
                                     const heddle_rt_attention_desc *desc,
                                     const heddle_rt_attention_offsets *offsets,
                                     const int64_t *step, const void *q,
                                     const void *k, const void *v, void *o,
                                     float *lse) {
  return device->issue(stream, WorkKind::Attention, "attention", desc, [&] {
    return device->attention->forward(*desc, *offsets, step, q, k, v, o, lse);
  });
}

heddle_rt_status
heddle_rt_attention_grad(heddle_rt_device *device, int32_t stream,
                         const heddle_rt_attention_desc *desc,
                         const heddle_rt_attention_offsets *offsets,
                         const int64_t *step, const void *q, const void *k,
                         const void *v, const void *o, const float *lse,
                         const void *d_o, void *dq, void *dk, void *dv) {
  return device->issue(
      stream, WorkKind::Attention, "attention_grad", desc, [&] {
        return device->attention->backward(*desc, *offsets, step, q, k, v, o,
                                           lse, d_o, dq, dk, dv);
      });
}

heddle_rt_status heddle_rt_embedding_grad(heddle_rt_device *device,
                                          int32_t stream, const int32_t *ids,
                                          int64_t num_ids, const void *rows,
                                          int32_t type, int64_t width,
                                          int64_t first_row, int64_t table_rows,
                                          int32_t accumulate,
                                          float *table_grad) {
  return device->issue(
      stream, WorkKind::Kernel, "embedding_grad", nullptr, [&] {
        return embeddingGrad(device->pool, ids, num_ids, rows, type, width,
                             first_row, table_rows, accumulate != 0,
                             table_grad);
      });
}

heddle_rt_status heddle_rt_rotary_table(heddle_rt_device *device,
                                        int32_t stream,
                                        const double *frequencies, int64_t half,
                                        int64_t first, int64_t rows, float *cos,
                                        float *sin) {
  return device->issue(stream, WorkKind::Kernel, "rotary_table", nullptr, [&] {
    rotaryTable(device->pool, frequencies, half, first, rows, cos, sin);
    return Status::success();
  });
}

heddle_rt_status heddle_rt_copy(heddle_rt_device *device, int32_t stream,
                                const void *from, int64_t from_stride_bytes,
                                void *to, int64_t to_stride_bytes,
                                int64_t blocks, int64_t bytes) {
  return device->issue(stream, WorkKind::Copy, "copy", nullptr, [&] {
    auto *source = static_cast<const char *>(from);
    auto *target = static_cast<char *>(to);
    if (blocks == 1) {
      device->pool.forRanges(
          bytes, grainBytes, [&](int64_t begin, int64_t end) {
            std::memcpy(target + begin, source + begin, size_t(end - begin));
          });
      return Status::success();
    }
    int64_t grain =
        std::max<int64_t>(1, grainBytes / std::max<int64_t>(1, bytes));
    device->pool.forRanges(blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block)
        std::memcpy(target + block * to_stride_bytes,
                    source + block * from_stride_bytes, size_t(bytes));
    });
    return Status::success();
  });
}

heddle_rt_status heddle_rt_fill_zero(heddle_rt_device *device, int32_t stream,
                                     void *to, int64_t bytes) {
  return device->issue(stream, WorkKind::Copy, "fill_zero", nullptr, [&] {
    device->pool.forRanges(bytes, grainBytes, [&](int64_t begin, int64_t end) {
      std::memset(static_cast<char *>(to) + begin, 0, size_t(end - begin));
    });
    return Status::success();
  });
}

heddle_rt_status heddle_rt_all_reduce(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t reduction,
                                      int32_t type, const void *in, void *out,
                                      int64_t count) {
  return collective(device, stream, "all_reduce", type,
                    [&](Communicator &communicator, DType dtype) -> Status {
                      HEDDLE_RT_RETURN_IF_ERROR(checkReduction(reduction));
                      return communicator.allReduce(group, Reduction(reduction),
                                                    dtype, in, out, count);
                    });
}

heddle_rt_status heddle_rt_all_gather(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t type,
                                      const void *in, void *out, int64_t outer,
                                      int64_t local, int64_t total,
                                      int64_t inner) {
  return collective(device, stream, "all_gather", type,
                    [&](Communicator &communicator, DType dtype) {
                      return communicator.allGather(group, dtype, in, out,
                                                    outer, local, total, inner);
                    });
}

heddle_rt_status heddle_rt_reduce_scatter(heddle_rt_device *device,
                                          int32_t stream, int32_t group,
                                          int32_t reduction, int32_t type,
                                          const void *in, void *out,
                                          int64_t outer, int64_t local,
                                          int64_t total, int64_t inner) {
  return collective(device, stream, "reduce_scatter", type,
                    [&](Communicator &communicator, DType dtype) -> Status {
                      HEDDLE_RT_RETURN_IF_ERROR(checkReduction(reduction));
                      return communicator.reduceScatter(
                          group, Reduction(reduction), dtype, in, out, outer,
                          local, total, inner);
                    });
}

heddle_rt_status heddle_rt_all_to_all(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t type,
                                      const void *in, void *out,
                                      int32_t split_first, int64_t outer,
                                      int64_t split_total, int64_t split_local,
                                      int64_t middle, int64_t concat_local,
                                      int64_t concat_total, int64_t inner) {
  return collective(device, stream, "all_to_all", type,
                    [&](Communicator &communicator, DType dtype) {
                      return communicator.allToAll(
                          group, dtype, in, out,
                          {split_first != 0, outer, split_total, split_local,
                           middle, concat_local, concat_total, inner});
                    });
}

heddle_rt_status heddle_rt_broadcast(heddle_rt_device *device, int32_t stream,
                                     int32_t group, int32_t root, int32_t type,
                                     const void *in, void *out, int64_t count) {
  return collective(device, stream, "broadcast", type,
                    [&](Communicator &communicator, DType dtype) {
                      return communicator.broadcast(group, root, dtype, in, out,
                                                    count);
                    });
}

heddle_rt_status heddle_rt_permute(heddle_rt_device *device, int32_t stream,
                                   int32_t group, const int32_t *sources,
                                   int32_t type, const void *in, void *out,
                                   int64_t count) {
  return collective(device, stream, "permute", type,
                    [&](Communicator &communicator, DType dtype) {
                      return communicator.permute(group, sources, dtype, in,
                                                  out, count);
                    });
}

heddle_rt_status heddle_rt_send(heddle_rt_device *device, int32_t stream,
                                int32_t group, int32_t peer, int32_t type,
                                const void *from, int64_t count) {
  return collective(device, stream, "send", type,
                    [&](Communicator &communicator, DType dtype) {
                      return communicator.send(group, peer, dtype, from, count);
                    });
}

heddle_rt_status heddle_rt_recv(heddle_rt_device *device, int32_t stream,
                                int32_t group, int32_t peer, int32_t type,
                                void *to, int64_t count) {
  return collective(device, stream, "recv", type,
                    [&](Communicator &communicator, DType dtype) {
                      return communicator.recv(group, peer, dtype, to, count);
                    });
}

// Streams are synchronous: an event is complete when it is recorded, and
// nothing is pending at any time.

heddle_rt_status heddle_rt_event_record(heddle_rt_device *device, int32_t,
                                        int32_t) {
  return device->error.ok() ? 0 : 1;
}

heddle_rt_status heddle_rt_event_wait(heddle_rt_device *device, int32_t,
                                      int32_t) {
  return device->error.ok() ? 0 : 1;
}

heddle_rt_status heddle_rt_synchronize(heddle_rt_device *device) {
  return device->error.ok() ? 0 : 1;
}

} // extern "C"
