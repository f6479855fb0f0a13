//===- InnerAttentionBackward.h - Attention, backward -------------*- C++
//-*-===//
//
// Part of IsaBuild.h: see there.
//
// A task is one (batch, group). With P the probabilities and M the factors of
// dropout, for each tile of keys and each tile of queries that sees it:
//
//   P = 2^(Q K^T * scale * log2(e) - lse * log2(e))
//   dV += (P M)^T dO
//   dS = P (dO V^T M - delta),  delta_i = sum_d dO_id O_id
//   dK += dS^T Q * scale;  dQ += dS K * scale
//
// dQ is summed over the tiles of keys in scratch of the size of the group's
// queries, in f32 whatever the type.
//
//===----------------------------------------------------------------------===//

namespace heddle::rt {
namespace HEDDLE_RT_ISA {

struct BackwardScratch {
  explicit BackwardScratch(const heddle_rt_attention_desc &d, Scratch scratch) {
    int64_t width = padded(d.head), tile = tileEdge * width;
    int64_t rows = d.group_size * d.queries;
    dq = scratch.take(rows * width);
    delta = scratch.take(rows);
    lse = scratch.take(rows);
    q = scratch.take(tile);
    d_o = scratch.take(tile);
    k = scratch.take(tile);
    kTransposed = scratch.take(tile);
    v = scratch.take(tile);
    vTransposed = scratch.take(tile);
    dk = scratch.take(tile);
    dv = scratch.take(tile);
    p = scratch.take(tileEdge * tileEdge);
    ds = scratch.take(tileEdge * tileEdge);
    factors = scratch.take(tileEdge * tileEdge);
    bytes = scratch.bytes();
  }
  float *dq, *delta, *lse; ///< of all queries, head by head
  float *q, *d_o, *k, *kTransposed, *v, *vTransposed, *dk, *dv;
  float *p, *ds, *factors;
  int64_t bytes;
};

static int64_t backwardScratch(const heddle_rt_attention_desc &d) {
  return BackwardScratch(d, Scratch(nullptr)).bytes;
}

static int64_t backwardTasks(const heddle_rt_attention_desc &d) {
  return d.batch * d.groups;
}

/// Offset of row (query, member) in the dense layout of o.
static int64_t outputRow(const heddle_rt_attention_desc &d, int64_t batch,
                         int64_t query, int64_t group, int64_t member) {
  return ((batch * d.queries + query) * d.groups + group) * d.group_size +
         member;
}

/// delta and lse of one head; lse in powers of 2, and finite for rows that see
/// no key, whose scores are all -infinity.
static void prepareRows(const AttentionCall &call, BackwardScratch &s,
                        int64_t batch, int64_t group, int64_t member) {
  const heddle_rt_attention_desc &d = *call.desc;
  int64_t width = padded(d.head);
  int64_t stride = d.groups * d.group_size * d.head;
  for (int64_t begin = 0; begin < d.queries; begin += tileEdge) {
    int64_t count = minimum(tileEdge, d.queries - begin);
    int64_t row = outputRow(d, batch, begin, group, member);
    loadRows(elementAt(call.o, d.type, row * d.head), d.type, stride, count,
             d.head, 1.0f, s.q);
    loadRows(elementAt(call.d_o, d.type, row * d.head), d.type, stride, count,
             d.head, 1.0f, s.d_o);
    for (int64_t i = 0; i < count; ++i) {
      Vector sum = splat(0.0f);
      for (int64_t j = 0; j < width; j += lanes)
        sum += load(s.q + i * width + j) * load(s.d_o + i * width + j);
      int64_t at = member * d.queries + begin + i;
      s.delta[at] = horizontalSum(sum);
      float lse = call.lse[row + i * d.groups * d.group_size];
      s.lse[at] = lse == minusInfinity ? 0.0f : lse * log2e;
    }
  }
}

/// p: scores to dropped probabilities; ds: dO V^T to the scores' gradient.
static void differentiateTile(BackwardScratch &s, bool drops, int64_t rows,
                              int64_t columns, const float *lse,
                              const float *delta) {
  for (int64_t i = 0; i < rows; ++i) {
    float *p = s.p + i * tileEdge, *ds = s.ds + i * tileEdge;
    const float *factors = s.factors + i * tileEdge;
    for (int64_t j = 0; j < columns; j += lanes) {
      Vector probability = exp2(load(p + j) - lse[i]);
      Vector gradient = load(ds + j);
      Vector factor = drops ? load(factors + j) : splat(1.0f);
      store(ds + j, probability * (gradient * factor - delta[i]));
      store(p + j, probability * factor);
    }
  }
}

static void backwardTile(const AttentionCall &call, const Dropout &dropout,
                         BackwardScratch &s, int64_t batch, int64_t group,
                         int64_t member, int64_t query, int64_t queries,
                         int64_t key, int64_t keys) {
  const heddle_rt_attention_desc &d = *call.desc;
  TileMask mask{keys, query + call.offsets.query - call.offsets.key - key,
                d.causal != 0};
  if (mask.visible(queries - 1) == 0)
    return;
  int64_t width = padded(d.head), columns = padded(keys);
  loadRows(elementAt(call.q, d.type,
                     batch * d.q_batch_stride + query * d.q_row_stride +
                         group * d.q_group_stride + member * d.q_head_stride),
           d.type, d.q_row_stride, queries, d.head, 1.0f, s.q);
  loadRows(elementAt(call.d_o, d.type,
                     outputRow(d, batch, query, group, member) * d.head),
           d.type, d.groups * d.group_size * d.head, queries, d.head, 1.0f,
           s.d_o);
  product<false>(queries, columns, d.head, s.q, width, 1, s.kTransposed,
                 tileEdge, s.p, tileEdge);
  product<false>(queries, columns, d.head, s.d_o, width, 1, s.vTransposed,
                 tileEdge, s.ds, tileEdge);
  if (!mask.isFull(queries))
    maskScores(s.p, queries, mask);
  if (!dropout.isNone())
    dropout.fill(batch, group, member, query, queries, key, columns, s.factors);
  int64_t row = member * d.queries + query;
  differentiateTile(s, !dropout.isNone(), queries, columns, s.lse + row,
                    s.delta + row);
  product<true>(keys, width, queries, s.p, 1, tileEdge, s.d_o, width, s.dv,
                width);
  product<true>(keys, width, queries, s.ds, 1, tileEdge, s.q, width, s.dk,
                width);
  product<true>(queries, width, keys, s.ds, tileEdge, 1, s.k, width,
                s.dq + row * width, width);
}

static void backward(const AttentionCall &call, int64_t task, void *scratch) {
  const heddle_rt_attention_desc &d = *call.desc;
  BackwardScratch s(d, Scratch(scratch));
  Dropout dropout(call);
  int64_t batch = task / d.groups, group = task % d.groups;
  int64_t width = padded(d.head);
  for (int64_t i = 0; i < d.group_size * d.queries * width; ++i)
    s.dq[i] = 0;
  for (int64_t member = 0; member < d.group_size; ++member)
    prepareRows(call, s, batch, group, member);
  for (int64_t key = 0; key < d.keys; key += tileEdge) {
    int64_t keys = minimum(tileEdge, d.keys - key);
    // The factor of the scores is in K^T, so Q and K are read unscaled.
    auto loadKeys = [&](float scale) {
      loadRows(elementAt(call.k, d.type,
                         batch * d.k_batch_stride + key * d.k_row_stride +
                             group * d.k_group_stride),
               d.type, d.k_row_stride, keys, d.head, scale, s.k);
    };
    loadKeys(d.scale * log2e);
    transposeTile(s.k, keys, width, s.kTransposed);
    loadKeys(1.0f);
    loadRows(elementAt(call.v, d.type,
                       batch * d.v_batch_stride + key * d.v_row_stride +
                           group * d.v_group_stride),
             d.type, d.v_row_stride, keys, d.head, 1.0f, s.v);
    transposeTile(s.v, keys, width, s.vTransposed);
    for (int64_t i = 0; i < tileEdge * width; ++i)
      s.dk[i] = s.dv[i] = 0;
    for (int64_t member = 0; member < d.group_size; ++member)
      for (int64_t query = 0; query < d.queries; query += tileEdge)
        backwardTile(call, dropout, s, batch, group, member, query,
                     minimum(tileEdge, d.queries - query), key, keys);
    storeRows(s.dk, keys, d.head, d.scale,
              elementAt(call.dk, d.type,
                        batch * d.dk_batch_stride + key * d.dk_row_stride +
                            group * d.dk_group_stride),
              d.type, d.dk_row_stride);
    storeRows(s.dv, keys, d.head, 1.0f,
              elementAt(call.dv, d.type,
                        batch * d.dv_batch_stride + key * d.dv_row_stride +
                            group * d.dv_group_stride),
              d.type, d.dv_row_stride);
  }
  for (int64_t member = 0; member < d.group_size; ++member)
    storeRows(s.dq + member * d.queries * width, d.queries, d.head, d.scale,
              elementAt(call.dq, d.type,
                        batch * d.dq_batch_stride + group * d.dq_group_stride +
                            member * d.dq_head_stride),
              d.type, d.dq_row_stride);
}

static constexpr AttentionKernels attention = {forwardScratch, backwardScratch,
                                               forwardTasks,   backwardTasks,
                                               forward,        backward};

} // namespace HEDDLE_RT_ISA
} // namespace heddle::rt
