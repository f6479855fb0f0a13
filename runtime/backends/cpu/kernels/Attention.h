//===- Attention.h - Attention in linear memory -----------------*- C++ -*-===//
//
// Tiled attention after T. Dao, "FlashAttention-2: Faster attention with better
// parallelism and work partitioning" (2023): scores exist one tile at a time,
// forward with a running maximum and sum of each row, backward recomputed from
// the stored logarithm of that sum.
//
// The work is cut into tasks by the sizes alone, and tasks write different
// elements: so results do not depend on the number of cores. Plain data only:
// the inner loops are compiled for several instruction sets (Isa.h).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTION_H
#define HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTION_H

#include "heddle_rt/abi.h"

#include <stdint.h>

namespace heddle::runtime {

/// Edge of a tile of scores, queries by keys.
constexpr int64_t attentionTile = 64;
/// Queries of a forward task; queries or keys of a part of the backward pass.
constexpr int64_t attentionChunk = 512;

/// One call.
struct AttentionCall {
  const heddle_rt_attention_desc *desc;
  heddle_rt_attention_offsets offsets;
  uint32_t step;
  const void *q, *k, *v, *o, *d_o;
  void *output; ///< o of the forward pass
  float *lse;   ///< written by the forward pass, read by the backward pass
  void *dq, *dk, *dv;
};

/// The gradients that a backward task computes. The two parts together give the
/// same bits as the whole. They take two more products a tile, but make more
/// tasks.
enum class BackwardPart { Whole, KeyGradients, QueryGradients };

struct AttentionKernels {
  /// Bytes of scratch that a core needs.
  int64_t (*forwardScratch)(const heddle_rt_attention_desc &desc);
  int64_t (*backwardScratch)(const heddle_rt_attention_desc &desc,
                             BackwardPart part);
  /// The number of independent tasks, and running one of them. `scratch` is
  /// 64-byte aligned.
  int64_t (*forwardTasks)(const heddle_rt_attention_desc &desc);
  int64_t (*backwardTasks)(const heddle_rt_attention_desc &desc,
                           BackwardPart part);
  void (*forward)(const AttentionCall &call, int64_t task, void *scratch);
  void (*backward)(const AttentionCall &call, BackwardPart part, int64_t task,
                   void *scratch);
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTION_H
