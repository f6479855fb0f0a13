//===- AttentionLibrary.h - Attention of one device -------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTIONLIBRARY_H
#define HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTIONLIBRARY_H

#include "heddle_rt/abi.h"
#include "heddle_rt/status.h"

#include <cstddef>
#include <memory>

namespace heddle::runtime {

class ThreadPool;

class AttentionLibrary {
public:
  explicit AttentionLibrary(ThreadPool &pool);
  ~AttentionLibrary();

  Status forward(const heddle_rt_attention_desc &desc,
                 const heddle_rt_attention_offsets &offsets,
                 const int64_t *step, const void *mask, const void *q,
                 const void *k, const void *v, void *o, float *lse);
  Status backward(const heddle_rt_attention_desc &desc,
                  const heddle_rt_attention_offsets &offsets,
                  const int64_t *step, const void *mask, const void *q,
                  const void *k, const void *v, const void *o, const float *lse,
                  const void *d_o, void *dq, void *dk, void *dv);
  size_t scratchBytes() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTIONLIBRARY_H
