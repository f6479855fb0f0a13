//===- LibraryCalls.cpp - Calls that the library's kernels do -------------===//
//
// Tables and copies, and attention that cuDNN does not compute: the calls of a
// CudaDevice that kernels/ serves.
//
//===----------------------------------------------------------------------===//

#include "backends/cuda/CudaDevice.h"
#include "support/Message.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace heddle::runtime::cuda {

namespace {

/// The threads of a block of all kernels in kernels/.
constexpr int64_t kThreads = 128;
constexpr int64_t kWarpsOfBlock = kThreads / 32;
/// The longest head that kernels/Attention.c serves: kPieces * 32 elements.
constexpr int64_t kLongestHead = 256;
/// Kernels with a loop over all elements need no more blocks than fill a GPU.
constexpr int64_t kMostBlocks = 4096;

uint64_t word(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}
uint64_t word(int64_t number) { return uint64_t(number); }

int64_t blocksFor(int64_t threads) {
  return std::clamp<int64_t>((threads + kThreads - 1) / kThreads, 1,
                             kMostBlocks);
}

Status checkAttention(const heddle_rt_attention_desc &desc) {
  if (desc.type != HEDDLE_RT_F32 && desc.type != HEDDLE_RT_BF16)
    return errorOf("expected attention of f32 or bf16 on a GPU, got ",
                   name(DType(desc.type)));
  if (desc.head > kLongestHead)
    return errorOf("expected heads of at most ", kLongestHead,
                   " elements on a GPU, got ", desc.head);
  return Status::success();
}

struct Dimension {
  int64_t size, stride; ///< stride: in elements
};

/// Returns the bytes from an operand's first element to its last one.
size_t bytesOf(std::initializer_list<Dimension> dimensions,
               size_t elementBytes) {
  int64_t last = 0;
  for (Dimension each : dimensions) {
    if (each.size == 0)
      return 0;
    last += (each.size - 1) * each.stride;
  }
  return size_t(last + 1) * elementBytes;
}

/// The bytes of the operands of an attention.
struct AttentionBytes {
  explicit AttentionBytes(const heddle_rt_attention_desc &d) {
    size_t width = byteSize(DType(d.type));
    q = bytesOf({{d.batch, d.q_batch_stride},
                 {d.queries, d.q_row_stride},
                 {d.groups, d.q_group_stride},
                 {d.group_size, d.q_head_stride},
                 {d.head, 1}},
                width);
    k = bytesOf({{d.batch, d.k_batch_stride},
                 {d.keys, d.k_row_stride},
                 {d.groups, d.k_group_stride},
                 {d.head, 1}},
                width);
    v = bytesOf({{d.batch, d.v_batch_stride},
                 {d.keys, d.v_row_stride},
                 {d.groups, d.v_group_stride},
                 {d.head, 1}},
                width);
    mask = bytesOf({{d.batch, d.mask_batch_stride},
                    {d.queries, d.mask_row_stride},
                    {d.groups, d.mask_group_stride},
                    {d.group_size, d.mask_head_stride},
                    {d.global_keys, d.mask_key_stride}},
                   d.mask_kind == HEDDLE_RT_MASK_ADDED ? sizeof(float) : 1);
    auto rows = size_t(d.batch * d.queries * d.groups * d.group_size);
    o = rows * size_t(d.head) * width;
    lse = rows * sizeof(float);
  }
  size_t q, k, v, mask, o, lse;
};

/// Operands of a call and their bytes. Those that are constants of the host are
/// copied to the device, and the pointers then lead to the copies.
using Operands = std::initializer_list<std::pair<const void **, size_t>>;
Status moveToDevice(CudaDevice &device, Operands operands) {
  for (auto [pointer, bytes] : operands) {
    if (!*pointer || bytes == 0)
      continue;
    Expected<const void *> onGpu = device.onDevice(*pointer, bytes);
    HEDDLE_RT_RETURN_IF_ERROR(onGpu.status());
    *pointer = *onGpu;
  }
  return Status::success();
}

} // namespace

Status CudaDevice::launchLibrary(int32_t stream, const char *kernel,
                                 int64_t blocks,
                                 std::span<const uint64_t> arguments) {
  Expected<Function> function = card->libraryKernel(kernel);
  HEDDLE_RT_RETURN_IF_ERROR(function.status());
  std::vector<void *> pointers;
  for (const uint64_t &argument : arguments)
    pointers.push_back(const_cast<uint64_t *>(&argument));
  return check(card->driver().launchKernel(
                   *function, unsigned(blocks), 1, 1, unsigned(kThreads), 1, 1,
                   0, streams[size_t(stream)], pointers.data(), nullptr),
               "cuLaunchKernel")
      .in(kernel);
}

Status CudaDevice::attention(int32_t stream,
                             const heddle_rt_attention_desc &desc,
                             const heddle_rt_attention_offsets &offsets,
                             const int64_t *step, const void *mask,
                             const void *q, const void *k, const void *v,
                             void *o, float *lse) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  int64_t rows = desc.batch * desc.queries * desc.groups * desc.group_size;
  if (rows == 0)
    return Status::success();
  AttentionBytes bytes(desc);
  const void *stepOnGpu = step;
  HEDDLE_RT_RETURN_IF_ERROR(moveToDevice(*this, {{&stepOnGpu, sizeof *step},
                                                 {&mask, bytes.mask},
                                                 {&q, bytes.q},
                                                 {&k, bytes.k},
                                                 {&v, bytes.v}}));
  Expected<bool> isDone =
      attentions.run(stream, AttentionPass::Forward, desc, offsets,
                     {.q = q, .k = k, .v = v, .o = o, .lse = lse});
  HEDDLE_RT_RETURN_IF_ERROR(isDone.status());
  if (*isDone)
    return Status::success();
  HEDDLE_RT_RETURN_IF_ERROR(checkAttention(desc));
  Expected<const void *> onGpu = upload(&desc, sizeof desc);
  HEDDLE_RT_RETURN_IF_ERROR(onGpu.status());
  Expected<const void *> places = upload(&offsets, sizeof offsets);
  HEDDLE_RT_RETURN_IF_ERROR(places.status());
  const std::array arguments{word(*onGpu), word(*places), word(stepOnGpu),
                             word(mask),   word(q),       word(k),
                             word(v),      word(o),       word(lse)};
  return launchLibrary(stream, "heddle_attention",
                       (rows + kWarpsOfBlock - 1) / kWarpsOfBlock, arguments);
}

Status CudaDevice::attentionGrad(int32_t stream,
                                 const heddle_rt_attention_desc &desc,
                                 const heddle_rt_attention_offsets &offsets,
                                 const int64_t *step, const void *mask,
                                 const void *q, const void *k, const void *v,
                                 const void *o, const float *lse,
                                 const void *d_o, void *dq, void *dk,
                                 void *dv) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  AttentionBytes bytes(desc);
  const void *stepOnGpu = step, *lseOnGpu = lse;
  HEDDLE_RT_RETURN_IF_ERROR(moveToDevice(*this, {{&stepOnGpu, sizeof *step},
                                                 {&mask, bytes.mask},
                                                 {&q, bytes.q},
                                                 {&k, bytes.k},
                                                 {&v, bytes.v},
                                                 {&o, bytes.o},
                                                 {&lseOnGpu, bytes.lse},
                                                 {&d_o, bytes.o}}));
  int64_t rows = desc.batch * desc.queries * desc.groups * desc.group_size;
  int64_t keys = desc.batch * desc.keys * desc.groups;
  if (rows > 0 && keys > 0) {
    Expected<bool> isDone = attentions.run(
        stream, AttentionPass::Backward, desc, offsets,
        {q, k, v, const_cast<void *>(o),
         static_cast<float *>(const_cast<void *>(lseOnGpu)), d_o, dq, dk, dv});
    HEDDLE_RT_RETURN_IF_ERROR(isDone.status());
    if (*isDone)
      return Status::success();
  }
  HEDDLE_RT_RETURN_IF_ERROR(checkAttention(desc));
  Expected<const void *> onGpu = upload(&desc, sizeof desc);
  HEDDLE_RT_RETURN_IF_ERROR(onGpu.status());
  Expected<const void *> places = upload(&offsets, sizeof offsets);
  HEDDLE_RT_RETURN_IF_ERROR(places.status());
  const std::array ofQueries{word(*onGpu), word(*places), word(stepOnGpu),
                             word(mask),   word(q),       word(k),
                             word(v),      word(o),       word(lseOnGpu),
                             word(d_o),    word(dq)};
  const std::array ofKeys{word(*onGpu), word(*places), word(stepOnGpu),
                          word(mask),   word(q),       word(k),
                          word(v),      word(o),       word(lseOnGpu),
                          word(d_o),    word(dk),      word(dv)};
  if (rows > 0)
    HEDDLE_RT_RETURN_IF_ERROR(
        launchLibrary(stream, "heddle_attention_grad_q",
                      (rows + kWarpsOfBlock - 1) / kWarpsOfBlock, ofQueries));
  if (keys == 0)
    return Status::success();
  return launchLibrary(stream, "heddle_attention_grad_kv",
                       (keys + kWarpsOfBlock - 1) / kWarpsOfBlock, ofKeys);
}

Status CudaDevice::embeddingGrad(int32_t stream, const int32_t *ids,
                                 int64_t numIds, const void *rows, int32_t type,
                                 int64_t width, int64_t firstRow,
                                 int64_t tableRows, bool accumulate,
                                 float *tableGrad) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  if (type != HEDDLE_RT_F32 && type != HEDDLE_RT_BF16)
    return errorOf("expected rows of type f32 or bf16 on a GPU, got ",
                   name(DType(type)));
  if (!accumulate)
    HEDDLE_RT_RETURN_IF_ERROR(fillZero(
        stream, tableGrad, tableRows * width * int64_t(sizeof(float))));
  if (numIds == 0)
    return Status::success();
  const void *idsOnGpu = ids;
  HEDDLE_RT_RETURN_IF_ERROR(moveToDevice(
      *this, {{&idsOnGpu, size_t(numIds) * sizeof *ids},
              {&rows, size_t(numIds * width) * byteSize(DType(type))}}));
  const std::array arguments{
      word(idsOnGpu), word(numIds),   word(rows),      word(int64_t(type)),
      word(width),    word(firstRow), word(tableRows), word(tableGrad)};
  return launchLibrary(stream, "heddle_embedding_grad", numIds, arguments);
}

/// The angles depend on constants alone. So the host computes the table once,
/// and each call copies it.
Status CudaDevice::rotaryTable(int32_t stream, const double *frequencies,
                               int64_t half, int64_t first, int64_t rows,
                               float *cosines, float *sines) {
  std::vector<float> tables[2];
  for (int64_t row = first; row < first + rows; ++row)
    for (int64_t j = 0; j < half; ++j) {
      double angle = double(row) * frequencies[j];
      tables[0].push_back(float(std::cos(angle)));
      tables[1].push_back(float(std::sin(angle)));
    }
  auto bytes = rows * half * int64_t(sizeof(float));
  float *targets[2] = {cosines, sines};
  for (int i = 0; i < 2; ++i) {
    Expected<const void *> table = upload(tables[i].data(), size_t(bytes));
    HEDDLE_RT_RETURN_IF_ERROR(table.status());
    HEDDLE_RT_RETURN_IF_ERROR(
        copyOnDevice(stream, *table, bytes, targets[i], bytes, 1, bytes));
  }
  return Status::success();
}

Status CudaDevice::copy(int32_t stream, const void *from, int64_t fromStride,
                        void *to, int64_t toStride, int64_t blocks,
                        int64_t bytes) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  if (blocks == 0 || bytes == 0)
    return Status::success();
  Expected<const void *> onGpu =
      onDevice(from, size_t((blocks - 1) * fromStride + bytes));
  HEDDLE_RT_RETURN_IF_ERROR(onGpu.status());
  return copyOnDevice(stream, *onGpu, fromStride, to, toStride, blocks, bytes);
}

Status CudaDevice::copyOnDevice(int32_t stream, const void *from,
                                int64_t fromStride, void *to, int64_t toStride,
                                int64_t blocks, int64_t bytes) {
  if (blocks == 0 || bytes == 0)
    return Status::success();
  if (blocks == 1)
    return check(card->driver().memcpyDtoDAsync(word(to), word(from),
                                                size_t(bytes),
                                                streams[size_t(stream)]),
                 "cuMemcpyDtoDAsync");
  uint64_t all = word(from) | word(to) | uint64_t(fromStride) |
                 uint64_t(toStride) | uint64_t(bytes);
  int64_t unit = 16;
  while (all % uint64_t(unit) != 0)
    unit /= 2;
  int64_t units = bytes / unit;
  const std::array arguments{word(from),     word(fromStride), word(to),
                             word(toStride), word(blocks),     word(units),
                             word(unit)};
  return launchLibrary(stream, "heddle_copy_runs", blocksFor(blocks * units),
                       arguments);
}

Status CudaDevice::fillZero(int32_t stream, void *to, int64_t bytes) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  if (bytes == 0)
    return Status::success();
  return check(card->driver().memsetD8Async(word(to), 0, size_t(bytes),
                                            streams[size_t(stream)]),
               "cuMemsetD8Async");
}

Status CudaDevice::collective(int32_t stream, const Collective &call) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  Communicator &communicator = *communicators[size_t(stream)];
  Collective onGpu = call;
  if (int64_t bytes = call.bytesIn(communicator.groupSize(call.group))) {
    Expected<const void *> in = onDevice(call.in, size_t(bytes));
    HEDDLE_RT_RETURN_IF_ERROR(in.status());
    onGpu.in = *in;
  }
  return communicator.perform(onGpu);
}

} // namespace heddle::runtime::cuda
