//===- InnerAttentionBackward.h - Attention, backward -----------*- C++ -*-===//
//
// Part of IsaBuild.h, which explains it.
//
// A task handles one (batch, group), a chunk of its keys (for dK and dV) or a
// chunk of its queries (for dQ): see BackwardPart. P are the probabilities, M
// the factors of dropout. For each tile of keys, and each tile of queries that
// sees a key of it, the task computes:
//
//   P = 2^(Q K^T * scale * log2(e) - lse * log2(e))
//   dV += (P M)^T dO
//   dS = P (dO V^T M - delta),  delta_i = sum_d dO_id O_id
//   dK += dS^T Q * scale;  dQ += dS K * scale
//
// Keys beyond the global end are not seen. dQ is summed over the tiles of keys
// in f32 scratch, which is as large as the task's queries. All parts add in the
// same order.
//
//===----------------------------------------------------------------------===//

namespace heddle::runtime {
namespace HEDDLE_RT_ISA {

/// The queries and keys of a task.
struct BackwardRange {
  BackwardRange(const heddle_rt_attention_desc &d, BackwardPart part,
                int64_t task)
      : part(part) {
    int64_t heads = d.batch * d.groups, chunk = task / heads;
    batch = task % heads / d.groups;
    group = task % heads % d.groups;
    queryEnd = d.queries;
    keyEnd = d.keys;
    if (part == BackwardPart::KeyGradients) {
      firstKey = chunk * attentionChunk;
      keyEnd = minimum(d.keys, firstKey + attentionChunk);
    } else if (part == BackwardPart::QueryGradients) {
      firstQuery = chunk * attentionChunk;
      queryEnd = minimum(d.queries, firstQuery + attentionChunk);
    }
  }
  static int64_t tasks(const heddle_rt_attention_desc &d, BackwardPart part) {
    int64_t rows = part == BackwardPart::KeyGradients     ? d.keys
                   : part == BackwardPart::QueryGradients ? d.queries
                                                          : 1;
    return d.batch * d.groups * ((rows + attentionChunk - 1) / attentionChunk);
  }
  /// Returns the row of a query in the task's scratch. Rows are ordered by the
  /// member (head), then by the query.
  int64_t row(int64_t member, int64_t query) const {
    return member * (queryEnd - firstQuery) + query - firstQuery;
  }
  bool hasQueryGradients() const { return part != BackwardPart::KeyGradients; }
  bool hasKeyGradients() const { return part != BackwardPart::QueryGradients; }

  BackwardPart part;
  int64_t batch, group;
  int64_t firstQuery = 0, queryEnd, firstKey = 0, keyEnd;
};

struct BackwardScratch {
  BackwardScratch(const heddle_rt_attention_desc &d, BackwardPart part,
                  Scratch scratch) {
    int64_t width = padded(d.head), tile = tileEdge * width;
    // The first task of a part is the largest, so its range gives the sizes.
    BackwardRange range(d, part, 0);
    int64_t rows = d.group_size * (range.queryEnd - range.firstQuery);
    dq = scratch.take(range.hasQueryGradients() ? rows * width : 0);
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
  float *dq, *delta, *lse; ///< for each query of the task
  float *q, *d_o, *k, *kTransposed, *v, *vTransposed, *dk, *dv;
  float *p, *ds, *factors;
  int64_t bytes;
};

static int64_t backwardScratch(const heddle_rt_attention_desc &d,
                               BackwardPart part) {
  return BackwardScratch(d, part, Scratch(nullptr)).bytes;
}

static int64_t backwardTasks(const heddle_rt_attention_desc &d,
                             BackwardPart part) {
  return BackwardRange::tasks(d, part);
}

/// Returns the index of row (query, member) in the dense layout of o.
static int64_t outputRow(const heddle_rt_attention_desc &d, int64_t batch,
                         int64_t query, int64_t group, int64_t member) {
  return ((batch * d.queries + query) * d.groups + group) * d.group_size +
         member;
}

/// Computes delta and lse of one head. lse is converted to base 2. It is set to
/// 0 for rows that see no key, whose scores are all -infinity.
static void prepareRows(const AttentionCall &call, BackwardScratch &s,
                        const BackwardRange &range, int64_t member) {
  const heddle_rt_attention_desc &d = *call.desc;
  int64_t width = padded(d.head);
  int64_t stride = d.groups * d.group_size * d.head;
  for (int64_t begin = range.firstQuery; begin < range.queryEnd;
       begin += tileEdge) {
    int64_t count = minimum(tileEdge, range.queryEnd - begin);
    int64_t row = outputRow(d, range.batch, begin, range.group, member);
    loadRows(elementAt(call.o, d.type, row * d.head), d.type, stride, count,
             d.head, 1.0f, s.q);
    loadRows(elementAt(call.d_o, d.type, row * d.head), d.type, stride, count,
             d.head, 1.0f, s.d_o);
    for (int64_t i = 0; i < count; ++i) {
      Vector sum = splat(0.0f);
      for (int64_t j = 0; j < width; j += lanes)
        sum += load(s.q + i * width + j) * load(s.d_o + i * width + j);
      int64_t at = range.row(member, begin + i);
      s.delta[at] = horizontalSum(sum);
      float lse = call.lse[row + i * d.groups * d.group_size];
      s.lse[at] = lse == minusInfinity ? 0.0f : lse * log2e;
    }
  }
}

/// Turns s.p from scores into probabilities after dropout (P M), and s.ds from
/// dO V^T into dS.
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
                         BackwardScratch &s, const BackwardRange &range,
                         int64_t member, int64_t query, int64_t key,
                         int64_t keys) {
  const heddle_rt_attention_desc &d = *call.desc;
  int64_t batch = range.batch, group = range.group;
  int64_t queries = minimum(tileEdge, range.queryEnd - query);
  TileMask mask{keys, query + call.offsets.query - call.offsets.key - key,
                Reach(d)};
  if (mask.isEmpty(queries))
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
  applyMask(call, s.p, batch, group, member, query, queries, key, keys);
  if (!dropout.isNone())
    dropout.fill(batch, group, member, query, queries, key, columns, s.factors);
  int64_t row = range.row(member, query);
  differentiateTile(s, !dropout.isNone(), queries, columns, s.lse + row,
                    s.delta + row);
  if (range.hasKeyGradients()) {
    product<true>(keys, width, queries, s.p, 1, tileEdge, s.d_o, width, s.dv,
                  width);
    product<true>(keys, width, queries, s.ds, 1, tileEdge, s.q, width, s.dk,
                  width);
  }
  if (range.hasQueryGradients())
    product<true>(queries, width, keys, s.ds, tileEdge, 1, s.k, width,
                  s.dq + row * width, width);
}

/// Loads one tile of keys: K; K transposed and scaled for the scores; V
/// transposed. K itself and Q stay unscaled for the gradients.
static void loadKeys(const AttentionCall &call, BackwardScratch &s,
                     const BackwardRange &range, int64_t key, int64_t keys) {
  const heddle_rt_attention_desc &d = *call.desc;
  int64_t width = padded(d.head);
  const void *k =
      elementAt(call.k, d.type,
                range.batch * d.k_batch_stride + key * d.k_row_stride +
                    range.group * d.k_group_stride);
  loadRows(k, d.type, d.k_row_stride, keys, d.head, d.scale * log2e, s.k);
  transposeTile(s.k, keys, width, s.kTransposed);
  loadRows(k, d.type, d.k_row_stride, keys, d.head, 1.0f, s.k);
  loadRows(elementAt(call.v, d.type,
                     range.batch * d.v_batch_stride + key * d.v_row_stride +
                         range.group * d.v_group_stride),
           d.type, d.v_row_stride, keys, d.head, 1.0f, s.v);
  transposeTile(s.v, keys, width, s.vTransposed);
}

/// Returns true if a query of the range sees a key of a tile, unless the
/// caller's mask hides all of them.
static bool isTileSeen(const AttentionCall &call, const BackwardRange &range,
                       int64_t key) {
  Reach reach(*call.desc);
  int64_t shift = call.offsets.query - call.offsets.key;
  return key <= range.queryEnd - 1 + shift + reach.after &&
         key + tileEdge > range.firstQuery + shift - reach.before;
}

static void storeKeyGradients(const AttentionCall &call, BackwardScratch &s,
                              const BackwardRange &range, int64_t key,
                              int64_t keys) {
  const heddle_rt_attention_desc &d = *call.desc;
  storeRows(s.dk, keys, d.head, d.scale,
            elementAt(call.dk, d.type,
                      range.batch * d.dk_batch_stride + key * d.dk_row_stride +
                          range.group * d.dk_group_stride),
            d.type, d.dk_row_stride);
  storeRows(s.dv, keys, d.head, 1.0f,
            elementAt(call.dv, d.type,
                      range.batch * d.dv_batch_stride + key * d.dv_row_stride +
                          range.group * d.dv_group_stride),
            d.type, d.dv_row_stride);
}

static void backward(const AttentionCall &call, BackwardPart part, int64_t task,
                     void *scratch) {
  const heddle_rt_attention_desc &d = *call.desc;
  BackwardScratch s(d, part, Scratch(scratch));
  BackwardRange range(d, part, task);
  Dropout dropout(call);
  int64_t width = padded(d.head), queries = range.queryEnd - range.firstQuery;
  if (range.hasQueryGradients())
    for (int64_t i = 0; i < d.group_size * queries * width; ++i)
      s.dq[i] = 0;
  for (int64_t member = 0; member < d.group_size; ++member)
    prepareRows(call, s, range, member);
  int64_t existing = existingKeys(call);
  for (int64_t key = range.firstKey; key < range.keyEnd; key += tileEdge) {
    for (int64_t i = 0; i < tileEdge * width; ++i)
      s.dk[i] = s.dv[i] = 0;
    int64_t keys = minimum(tileEdge, minimum(range.keyEnd, existing) - key);
    if (keys > 0 && isTileSeen(call, range, key)) {
      loadKeys(call, s, range, key, keys);
      for (int64_t member = 0; member < d.group_size; ++member)
        for (int64_t query = range.firstQuery; query < range.queryEnd;
             query += tileEdge)
          backwardTile(call, dropout, s, range, member, query, key, keys);
    }
    // Padding keys have gradients of zero.
    if (range.hasKeyGradients())
      storeKeyGradients(call, s, range, key,
                        minimum(tileEdge, range.keyEnd - key));
  }
  if (!range.hasQueryGradients())
    return;
  for (int64_t member = 0; member < d.group_size; ++member)
    storeRows(s.dq + member * queries * width, queries, d.head, d.scale,
              elementAt(call.dq, d.type,
                        range.batch * d.dq_batch_stride +
                            range.firstQuery * d.dq_row_stride +
                            range.group * d.dq_group_stride +
                            member * d.dq_head_stride),
              d.type, d.dq_row_stride);
}

static constexpr AttentionKernels attention = {forwardScratch, backwardScratch,
                                               forwardTasks,   backwardTasks,
                                               forward,        backward};

} // namespace HEDDLE_RT_ISA
} // namespace heddle::runtime
