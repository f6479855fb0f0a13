//===- AttentionCases.h - Calls of attention and their results --*- C++ -*-===//

#ifndef HEDDLE_TEST_RUNTIME_ATTENTIONCASES_H
#define HEDDLE_TEST_RUNTIME_ATTENTIONCASES_H

#include "heddle_rt/abi.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::runtime {

/// The sizes and options of a call, from which `describe` makes a descriptor.
struct AttentionCase {
  int64_t batch = 1, queries = 1, keys = 1, groups = 1, groupSize = 1, head = 8;
  bool causal = false;
  int32_t type = HEDDLE_RT_F32;
  float dropout = 0;
  heddle_rt_attention_offsets offsets{0, 0, 0, 0, 0};
  int64_t keysBeyond = 0; ///< how many keys lie beyond the global sequence
  int64_t window = 0;
  heddle_rt_attention_mask mask = HEDDLE_RT_MASK_NONE;
  /// Which dimensions of the mask are repeated: batch, query, group, member,
  /// key.
  bool repeats[5] = {};
};

/// The tensors of a call as numbers in dense layouts: q, o and their gradients
/// as [batch, queries, groups, group_size, head]; k, v and their gradients as
/// [batch, keys, groups, head].
struct AttentionNumbers {
  std::vector<double> q, k, v, o, lse, d_o, dq, dk, dv;
};

/// The places of rows of AttentionNumbers, in units of the head's size.
struct RowIndex {
  const AttentionCase &c;
  size_t query(int64_t b, int64_t i, int64_t g, int64_t r) const {
    return size_t(((b * c.queries + i) * c.groups + g) * c.groupSize + r);
  }
  size_t key(int64_t b, int64_t j, int64_t g) const {
    return size_t((b * c.keys + j) * c.groups + g);
  }
};

heddle_rt_attention_desc describe(const AttentionCase &c);

/// Returns random inputs; the results are empty.
AttentionNumbers attentionInputs(const AttentionCase &c);

/// Computes attention and its gradients by their definition, in double
/// precision.
void attentionByDefinition(const AttentionCase &c,
                           const heddle_rt_attention_desc &d, uint32_t step,
                           AttentionNumbers &n);

/// Runs the forward and the backward pass and returns the results in the
/// layouts of AttentionNumbers.
AttentionNumbers runAttention(const AttentionCase &c,
                              const heddle_rt_attention_desc &d, int64_t step,
                              const AttentionNumbers &in, int cores);

} // namespace heddle::runtime

#endif // HEDDLE_TEST_RUNTIME_ATTENTIONCASES_H
