//===- AttentionLibrary.cpp - Attention of one device ---------------------===//

#include "backends/cpu/kernels/AttentionLibrary.h"
#include "backends/cpu/kernels/Attention.h"
#include "backends/cpu/kernels/Convert.h"
#include "backends/cpu/kernels/Isa.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "heddle_rt/manifest.h"
#include "support/Message.h"

#include <vector>

namespace heddle::runtime {

struct AttentionLibrary::Impl {
  explicit Impl(ThreadPool &pool) : pool(pool), scratch(size_t(pool.size())) {}

  /// Enlarges each core's scratch to `bytes`.
  void reserve(int64_t bytes) {
    for (std::vector<std::byte> &core : scratch)
      if (int64_t(core.size()) < bytes + 64)
        core.resize(size_t(bytes) + 64);
  }
  void *scratchOf(int worker) { return alignedIn(scratch[size_t(worker)]); }

  ThreadPool &pool;
  std::vector<std::vector<std::byte>> scratch;
};

AttentionLibrary::AttentionLibrary(ThreadPool &pool)
    : impl(std::make_unique<Impl>(pool)) {}
AttentionLibrary::~AttentionLibrary() = default;

static Status check(const heddle_rt_attention_desc &d, const int64_t *step,
                    const void *mask) {
  for (int64_t size :
       {d.batch, d.queries, d.keys, d.groups, d.group_size, d.head})
    if (size < 1)
      return errorOf("expected sizes of at least 1, got batch ", d.batch,
                     ", queries ", d.queries, ", keys ", d.keys, ", groups ",
                     d.groups, ", group size ", d.group_size, ", head ",
                     d.head);
  if (d.type != HEDDLE_RT_F32 && d.type != HEDDLE_RT_BF16)
    return errorOf("expected operands of type f32 or bf16, got ",
                   name(DType(d.type)));
  if (!(d.dropout >= 0 && d.dropout < 1))
    return errorOf("expected a dropout in [0, 1), got ", d.dropout);
  if (d.dropout > 0 && !step)
    return errorOf("expected a step number, which dropout needs, got none");
  if (d.mask_kind != HEDDLE_RT_MASK_NONE && !mask)
    return errorOf("expected a mask, which the descriptor has, got none");
  return Status::success();
}

static AttentionCall callOf(const heddle_rt_attention_desc &desc,
                            const heddle_rt_attention_offsets &offsets,
                            const int64_t *step, const void *mask) {
  AttentionCall call{};
  call.desc = &desc;
  call.offsets = offsets;
  call.step = step ? uint32_t(*step) : 0;
  call.mask = mask;
  return call;
}

Status AttentionLibrary::forward(const heddle_rt_attention_desc &desc,
                                 const heddle_rt_attention_offsets &offsets,
                                 const int64_t *step, const void *mask,
                                 const void *q, const void *k, const void *v,
                                 void *o, float *lse) {
  HEDDLE_RT_RETURN_IF_ERROR(check(desc, step, mask));
  const AttentionKernels &kernels = *isaKernels().attention;
  AttentionCall call = callOf(desc, offsets, step, mask);
  call.q = q, call.k = k, call.v = v;
  call.output = o, call.lse = lse;
  impl->reserve(kernels.forwardScratch(desc));
  impl->pool.run(kernels.forwardTasks(desc), [&](int64_t task, int worker) {
    kernels.forward(call, task, impl->scratchOf(worker));
  });
  return Status::success();
}

/// Returns true if the backward pass on `cores` cores ends sooner in two parts
/// than as a whole. The parts take 4 and 3 products a tile, the whole takes 5.
/// Both give the same bits.
static bool splitsBackward(const heddle_rt_attention_desc &desc,
                           const AttentionKernels &kernels, int64_t cores) {
  auto rounds = [&](BackwardPart part) {
    return (kernels.backwardTasks(desc, part) + cores - 1) / cores;
  };
  auto chunks = [](int64_t rows) {
    return (rows + attentionChunk - 1) / attentionChunk;
  };
  double whole = 5.0 * double(rounds(BackwardPart::Whole));
  double parts = 4.0 * double(rounds(BackwardPart::KeyGradients)) /
                     double(chunks(desc.keys)) +
                 3.0 * double(rounds(BackwardPart::QueryGradients)) /
                     double(chunks(desc.queries));
  return parts < whole;
}

Status AttentionLibrary::backward(const heddle_rt_attention_desc &desc,
                                  const heddle_rt_attention_offsets &offsets,
                                  const int64_t *step, const void *mask,
                                  const void *q, const void *k, const void *v,
                                  const void *o, const float *lse,
                                  const void *d_o, void *dq, void *dk,
                                  void *dv) {
  HEDDLE_RT_RETURN_IF_ERROR(check(desc, step, mask));
  const AttentionKernels &kernels = *isaKernels().attention;
  AttentionCall call = callOf(desc, offsets, step, mask);
  call.q = q, call.k = k, call.v = v, call.o = o, call.d_o = d_o;
  call.lse = const_cast<float *>(lse); // the backward pass only reads it
  call.dq = dq, call.dk = dk, call.dv = dv;
  auto run = [&](BackwardPart part) {
    impl->reserve(kernels.backwardScratch(desc, part));
    impl->pool.run(
        kernels.backwardTasks(desc, part), [&](int64_t task, int worker) {
          kernels.backward(call, part, task, impl->scratchOf(worker));
        });
  };
  if (splitsBackward(desc, kernels, impl->pool.size())) {
    run(BackwardPart::KeyGradients);
    run(BackwardPart::QueryGradients);
  } else {
    run(BackwardPart::Whole);
  }
  return Status::success();
}

size_t AttentionLibrary::scratchBytes() const {
  size_t bytes = 0;
  for (const std::vector<std::byte> &core : impl->scratch)
    bytes += core.capacity();
  return bytes;
}

} // namespace heddle::runtime
