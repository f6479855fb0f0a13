//===- DenseAttention.h - Attention on dense operands -----------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_DENSEATTENTION_H
#define HEDDLE_TEST_SUPPORT_DENSEATTENTION_H

#include "heddle_rt/abi.h"

namespace heddle {

struct AttentionSizes {
  int64_t batch, queries, keys, groups, members, head;
};

/// Describes attention whose operands and gradients have no gaps: queries of
/// shape [batch, queries, groups, members, head], and keys and values of shape
/// [batch, keys, groups, head].
inline heddle_rt_attention_desc describeDense(int32_t type, AttentionSizes s,
                                              bool causal, int64_t window,
                                              float scale) {
  heddle_rt_attention_desc d = {};
  d.batch = s.batch, d.queries = s.queries, d.keys = s.keys;
  d.groups = s.groups, d.group_size = s.members, d.head = s.head;
  d.q_head_stride = d.dq_head_stride = s.head;
  d.q_group_stride = d.dq_group_stride = s.members * s.head;
  d.q_row_stride = d.dq_row_stride = s.groups * d.q_group_stride;
  d.q_batch_stride = d.dq_batch_stride = s.queries * d.q_row_stride;
  d.k_group_stride = d.dk_group_stride = d.v_group_stride = d.dv_group_stride =
      s.head;
  d.k_row_stride = d.dk_row_stride = d.v_row_stride = d.dv_row_stride =
      s.groups * s.head;
  d.k_batch_stride = d.dk_batch_stride = d.v_batch_stride = d.dv_batch_stride =
      s.keys * d.k_row_stride;
  d.type = type;
  d.causal = causal;
  d.window = window;
  d.scale = scale;
  d.global_queries = s.queries, d.global_keys = s.keys;
  d.global_groups = s.groups, d.global_group_size = s.members;
  return d;
}

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_DENSEATTENTION_H
