//===- Attention.h - Attention in linear memory -----------------*- C++ -*-===//
//
// Tiled attention after T. Dao, "FlashAttention-2: Faster attention with better
// parallelism and work partitioning" (2023). Only one tile of scores exists at
// a time. The forward pass keeps a running maximum and sum of each row. The
// backward pass recomputes scores from the stored logarithm of that sum.
//
// The sizes alone determine how the work is cut into tasks, and tasks write
// different elements. So results do not depend on the number of cores. This
// header has plain data only, because the inner loops that include it are
// compiled for several instruction sets (Isa.h).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTION_H
#define HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTION_H

#include "heddle_rt/abi.h"

#include <stdint.h>

namespace heddle::runtime {

/// Edge of a tile of scores, queries by keys.
constexpr int64_t attentionTile = 64;
/// Queries of a forward task. Queries or keys of a task of a backward part.
constexpr int64_t attentionChunk = 512;

/// The arguments of one call.
struct AttentionCall {
  const heddle_rt_attention_desc *desc;
  heddle_rt_attention_offsets offsets;
  uint32_t step;
  const void *mask; ///< null if the descriptor has none
  const void *q, *k, *v, *o, *d_o;
  void *output; ///< the forward pass writes o here
  float *lse;   ///< written by the forward pass, read by the backward pass
  void *dq, *dk, *dv;
};

/// The gradients that a backward task computes. KeyGradients and QueryGradients
/// together give the same bits as Whole. They need two more products a tile,
/// but make more tasks.
enum class BackwardPart { Whole, KeyGradients, QueryGradients };

struct AttentionKernels {
  /// Return the bytes of scratch that a core needs.
  int64_t (*forwardScratch)(const heddle_rt_attention_desc &desc);
  int64_t (*backwardScratch)(const heddle_rt_attention_desc &desc,
                             BackwardPart part);
  /// Return the number of independent tasks.
  int64_t (*forwardTasks)(const heddle_rt_attention_desc &desc);
  int64_t (*backwardTasks)(const heddle_rt_attention_desc &desc,
                           BackwardPart part);
  void (*forward)(const AttentionCall &call, int64_t task, void *scratch);
  void (*backward)(const AttentionCall &call, BackwardPart part, int64_t task,
                   void *scratch);
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_KERNELS_ATTENTION_H
