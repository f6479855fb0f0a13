//===- Abi.cpp - The calls of generated code ------------------------------===//
//
// Implements each function of heddle_rt/abi.h by a call of the device.
//
//===----------------------------------------------------------------------===//

#include "device/Device.h"
#include "support/Message.h"

#include <exception>
#include <utility>

using namespace heddle::runtime;

namespace {

/// Does something on the device's streams, unless the device has failed. If it
/// cannot be done, the device fails.
template <typename Call>
heddle_rt_status attempt(heddle_rt_device *device, const char *operation,
                         Call &&call) {
  if (device->hasFailed())
    return 1;
  Status status;
  try {
    status = call();
  } catch (const std::exception &exception) {
    status = Status::error(exception.what());
  }
  if (status.ok())
    return 0;
  return device->fail(std::move(status).in(operation), device->place);
}

/// Issues a call, and counts it.
template <typename Call>
heddle_rt_status issue(heddle_rt_device *device, const char *operation,
                       Call &&call) {
  ++device->place.call;
  return attempt(device, operation, std::forward<Call>(call));
}

heddle_rt_status issueCollective(heddle_rt_device *device, int32_t stream,
                                 const Collective &call) {
  return issue(device, name(call.kind), [&]() -> Status {
    if (!byteSize(call.type))
      return errorOf("element type ", int32_t(call.type), " is unknown");
    if (call.reduction != HEDDLE_RT_SUM && call.reduction != HEDDLE_RT_MAX)
      return errorOf("reduction ", int32_t(call.reduction), " is unknown");
    return device->collective(stream, call);
  });
}

} // namespace

extern "C" {

heddle_rt_status heddle_rt_launch(heddle_rt_device *device, int32_t stream,
                                  heddle_rt_kernel_fn kernel,
                                  void *const *buffers, int32_t num_buffers,
                                  const int64_t *words, int32_t num_words,
                                  int64_t blocks, int64_t grain) {
  return issue(device, "launch", [&] {
    return device->launch(stream, kernel, {buffers, size_t(num_buffers)},
                          {words, size_t(num_words)}, blocks, grain);
  });
}

heddle_rt_status heddle_rt_launch_kernel(heddle_rt_device *device,
                                         int32_t stream, int32_t kernel,
                                         const uint64_t *parameters,
                                         int32_t num_parameters) {
  return issue(device, "launch", [&] {
    return device->launchKernel(stream, kernel,
                                {parameters, size_t(num_parameters)});
  });
}

heddle_rt_status heddle_rt_matmul(heddle_rt_device *device, int32_t stream,
                                  const heddle_rt_matmul_desc *desc,
                                  const void *a, const void *b, void *c,
                                  const void *bias) {
  return issue(device, "matmul",
               [&] { return device->matmul(stream, *desc, a, b, c, bias); });
}

heddle_rt_status heddle_rt_fused_matmul(heddle_rt_device *device,
                                        int32_t stream,
                                        const heddle_rt_matmul_desc *desc,
                                        int32_t epilogue, const void *a,
                                        const void *b, void *c,
                                        const void *bias, void *extra) {
  return issue(device, "matmul", [&]() -> Status {
    if (epilogue < HEDDLE_RT_EPILOGUE_GELU ||
        epilogue > HEDDLE_RT_EPILOGUE_B_SUMS)
      return errorOf("epilogue ", epilogue, " is unknown");
    return device->fusedMatmul(stream, *desc, heddle_rt_epilogue(epilogue), a,
                               b, c, bias, extra);
  });
}

heddle_rt_status heddle_rt_attention(heddle_rt_device *device, int32_t stream,
                                     const heddle_rt_attention_desc *desc,
                                     const heddle_rt_attention_offsets *offsets,
                                     const int64_t *step, const void *mask,
                                     const void *q, const void *k,
                                     const void *v, void *o, float *lse) {
  return issue(device, "attention", [&] {
    return device->attention(stream, *desc, *offsets, step, mask, q, k, v, o,
                             lse);
  });
}

heddle_rt_status
heddle_rt_attention_grad(heddle_rt_device *device, int32_t stream,
                         const heddle_rt_attention_desc *desc,
                         const heddle_rt_attention_offsets *offsets,
                         const int64_t *step, const void *mask, const void *q,
                         const void *k, const void *v, const void *o,
                         const float *lse, const void *d_o, void *dq, void *dk,
                         void *dv) {
  return issue(device, "attention_grad", [&] {
    return device->attentionGrad(stream, *desc, *offsets, step, mask, q, k, v,
                                 o, lse, d_o, dq, dk, dv);
  });
}

heddle_rt_status heddle_rt_embedding_grad(heddle_rt_device *device,
                                          int32_t stream, const int32_t *ids,
                                          int64_t num_ids, const void *rows,
                                          int32_t type, int64_t width,
                                          int64_t first_row, int64_t table_rows,
                                          int32_t accumulate,
                                          float *table_grad) {
  return issue(device, "embedding_grad", [&] {
    return device->embeddingGrad(stream, ids, num_ids, rows, type, width,
                                 first_row, table_rows, accumulate != 0,
                                 table_grad);
  });
}

heddle_rt_status heddle_rt_rotary_table(heddle_rt_device *device,
                                        int32_t stream,
                                        const double *frequencies, int64_t half,
                                        int64_t first, int64_t rows, float *cos,
                                        float *sin) {
  return issue(device, "rotary_table", [&] {
    return device->rotaryTable(stream, frequencies, half, first, rows, cos,
                               sin);
  });
}

heddle_rt_status heddle_rt_copy(heddle_rt_device *device, int32_t stream,
                                const void *from, int64_t from_stride_bytes,
                                void *to, int64_t to_stride_bytes,
                                int64_t blocks, int64_t bytes) {
  return issue(device, "copy", [&] {
    return device->copy(stream, from, from_stride_bytes, to, to_stride_bytes,
                        blocks, bytes);
  });
}

heddle_rt_status heddle_rt_fill_zero(heddle_rt_device *device, int32_t stream,
                                     void *to, int64_t bytes) {
  return issue(device, "fill_zero",
               [&] { return device->fillZero(stream, to, bytes); });
}

heddle_rt_status heddle_rt_all_reduce(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t reduction,
                                      int32_t type, const void *in, void *out,
                                      int64_t count) {
  return issueCollective(device, stream,
                         {.kind = Collective::Kind::AllReduce,
                          .group = group,
                          .type = DType(type),
                          .in = in,
                          .out = out,
                          .count = count,
                          .reduction = Reduction(reduction)});
}

heddle_rt_status heddle_rt_all_gather(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t type,
                                      const void *in, void *out,
                                      int64_t count) {
  return issueCollective(device, stream,
                         {.kind = Collective::Kind::AllGather,
                          .group = group,
                          .type = DType(type),
                          .in = in,
                          .out = out,
                          .count = count});
}

heddle_rt_status heddle_rt_reduce_scatter(heddle_rt_device *device,
                                          int32_t stream, int32_t group,
                                          int32_t reduction, int32_t type,
                                          const void *in, void *out,
                                          int64_t count) {
  return issueCollective(device, stream,
                         {.kind = Collective::Kind::ReduceScatter,
                          .group = group,
                          .type = DType(type),
                          .in = in,
                          .out = out,
                          .count = count,
                          .reduction = Reduction(reduction)});
}

heddle_rt_status heddle_rt_all_to_all(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t type,
                                      const void *in, void *out,
                                      int64_t count) {
  return issueCollective(device, stream,
                         {.kind = Collective::Kind::AllToAll,
                          .group = group,
                          .type = DType(type),
                          .in = in,
                          .out = out,
                          .count = count});
}

heddle_rt_status heddle_rt_broadcast(heddle_rt_device *device, int32_t stream,
                                     int32_t group, int32_t root, int32_t type,
                                     const void *in, void *out, int64_t count) {
  return issueCollective(device, stream,
                         {.kind = Collective::Kind::Broadcast,
                          .group = group,
                          .type = DType(type),
                          .in = in,
                          .out = out,
                          .count = count,
                          .peer = root});
}

heddle_rt_status heddle_rt_permute(heddle_rt_device *device, int32_t stream,
                                   int32_t group, const int32_t *sources,
                                   int32_t type, const void *in, void *out,
                                   int64_t count) {
  return issueCollective(device, stream,
                         {.kind = Collective::Kind::Permute,
                          .group = group,
                          .type = DType(type),
                          .in = in,
                          .out = out,
                          .count = count,
                          .sources = sources});
}

heddle_rt_status heddle_rt_send(heddle_rt_device *device, int32_t stream,
                                int32_t group, int32_t peer, int32_t type,
                                const void *from, int64_t count) {
  return issueCollective(device, stream,
                         {.kind = Collective::Kind::Send,
                          .group = group,
                          .type = DType(type),
                          .in = from,
                          .count = count,
                          .peer = peer});
}

heddle_rt_status heddle_rt_recv(heddle_rt_device *device, int32_t stream,
                                int32_t group, int32_t peer, int32_t type,
                                void *to, int64_t count) {
  return issueCollective(device, stream,
                         {.kind = Collective::Kind::Recv,
                          .group = group,
                          .type = DType(type),
                          .out = to,
                          .count = count,
                          .peer = peer});
}

heddle_rt_status heddle_rt_event_record(heddle_rt_device *device,
                                        int32_t stream, int32_t event) {
  return attempt(device, "event_record",
                 [&] { return device->recordEvent(stream, event); });
}

heddle_rt_status heddle_rt_event_wait(heddle_rt_device *device, int32_t stream,
                                      int32_t event) {
  return attempt(device, "event_wait",
                 [&] { return device->waitEvent(stream, event); });
}

heddle_rt_status heddle_rt_synchronize(heddle_rt_device *device) {
  return attempt(device, "synchronize", [&] { return device->synchronize(); });
}

} // extern "C"
