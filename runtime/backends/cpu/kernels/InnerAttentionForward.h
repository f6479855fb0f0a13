//===- InnerAttentionForward.h - Attention, forward -------------*- C++ -*-===//
//
// Part of IsaBuild.h, which explains it.
//
// A task handles a chunk of queries of one (batch, group), for each head of the
// group. For each tile of keys, and each tile of queries that sees a key of it,
// the task computes:
//
//   S = Q K^T * scale * log2(e)          so that probabilities are powers of 2
//   m' = max(m, rowmax S);  P = 2^(S - m')
//   l = l * 2^(m - m') + rowsum P
//   O = O * 2^(m - m') + (P after dropout) V
//
// At the end it divides O by l and stores lse = (m + log2 l) * ln 2.
//
//===----------------------------------------------------------------------===//

namespace heddle::runtime {
namespace HEDDLE_RT_ISA {

struct ForwardScratch {
  explicit ForwardScratch(const heddle_rt_attention_desc &d, Scratch scratch) {
    int64_t width = padded(d.head), chunk = minimum(attentionChunk, d.queries);
    q = scratch.take(chunk * width);
    o = scratch.take(chunk * width);
    maxima = scratch.take(chunk);
    sums = scratch.take(chunk);
    k = scratch.take(tileEdge * width);
    kTransposed = scratch.take(tileEdge * width);
    v = scratch.take(tileEdge * width);
    scores = scratch.take(tileEdge * tileEdge);
    factors = scratch.take(tileEdge * tileEdge);
    bytes = scratch.bytes();
  }
  float *q, *o, *maxima, *sums, *k, *kTransposed, *v, *scores, *factors;
  int64_t bytes;
};

static int64_t forwardScratch(const heddle_rt_attention_desc &d) {
  return ForwardScratch(d, Scratch(nullptr)).bytes;
}

static int64_t forwardTasks(const heddle_rt_attention_desc &d) {
  return d.batch * d.groups *
         ((d.queries + attentionChunk - 1) / attentionChunk);
}

/// Continues the softmax of the tile's rows from earlier tiles. Scores become
/// probabilities relative to the new maximum; sums and output rows are rescaled
/// to that maximum.
static void softmaxTile(float *scores, int64_t rows, int64_t columns,
                        float *maxima, float *sums, float *o, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) {
    float *row = scores + i * tileEdge;
    Vector largest = load(row);
    for (int64_t j = lanes; j < columns; j += lanes) {
      Vector next = load(row + j);
      largest = largest > next ? largest : next;
    }
    float rowMax = horizontalMax(largest);
    float before = maxima[i], now = rowMax > before ? rowMax : before;
    // A row that has seen no key yet has the maximum -infinity. Any finite
    // reference then gives zeros.
    float reference = now == minusInfinity ? 0.0f : now;
    Vector sum = splat(0.0f);
    for (int64_t j = 0; j < columns; j += lanes) {
      Vector p = exp2(load(row + j) - reference);
      store(row + j, p);
      sum += p;
    }
    float rowSum = horizontalSum(sum);
    if (now == before) {
      sums[i] += rowSum;
      continue;
    }
    float factor = exp2(splat(before - reference))[0];
    sums[i] = sums[i] * factor + rowSum;
    maxima[i] = now;
    for (int64_t j = 0; j < width; j += lanes)
      store(o + i * width + j, load(o + i * width + j) * factor);
  }
}

/// Writes one head's chunk of the output and of lse.
static void finishForward(const AttentionCall &call, ForwardScratch &s,
                          int64_t batch, int64_t group, int64_t member,
                          int64_t first, int64_t count) {
  const heddle_rt_attention_desc &d = *call.desc;
  int64_t width = padded(d.head), heads = d.groups * d.group_size;
  int64_t at =
      ((batch * d.queries + first) * d.groups + group) * d.group_size + member;
  for (int64_t i = 0; i < count; ++i) {
    float sum = s.sums[i], inverse = sum > 0 ? 1.0f / sum : 0.0f;
    storeRows(s.o + i * width, 1, d.head, inverse,
              elementAt(call.output, d.type, (at + i * heads) * d.head), d.type,
              0);
    call.lse[at + i * heads] =
        sum > 0 ? s.maxima[i] * ln2 + __builtin_logf(sum) : minusInfinity;
  }
}

static void forwardHead(const AttentionCall &call, const Dropout &dropout,
                        ForwardScratch &s, int64_t batch, int64_t group,
                        int64_t member, int64_t first, int64_t count) {
  const heddle_rt_attention_desc &d = *call.desc;
  int64_t width = padded(d.head);
  auto rows = [&](const void *base, int64_t offset) {
    return elementAt(base, d.type, offset);
  };
  loadRows(rows(call.q, batch * d.q_batch_stride + first * d.q_row_stride +
                            group * d.q_group_stride +
                            member * d.q_head_stride),
           d.type, d.q_row_stride, count, d.head, d.scale * log2e, s.q);
  for (int64_t i = 0; i < count * width; ++i)
    s.o[i] = 0;
  for (int64_t i = 0; i < count; ++i) {
    s.maxima[i] = minusInfinity;
    s.sums[i] = 0;
  }
  int64_t shift = call.offsets.query - call.offsets.key;
  int64_t existing = existingKeys(call);
  int64_t seen = visibleKeys(call, first + count);
  for (int64_t key = firstVisibleTile(call, first); key < seen;
       key += tileEdge) {
    int64_t keys = minimum(tileEdge, existing - key);
    loadRows(rows(call.k, batch * d.k_batch_stride + key * d.k_row_stride +
                              group * d.k_group_stride),
             d.type, d.k_row_stride, keys, d.head, 1.0f, s.k);
    transposeTile(s.k, keys, width, s.kTransposed);
    loadRows(rows(call.v, batch * d.v_batch_stride + key * d.v_row_stride +
                              group * d.v_group_stride),
             d.type, d.v_row_stride, keys, d.head, 1.0f, s.v);
    for (int64_t query = 0; query < count; query += tileEdge) {
      int64_t queries = minimum(tileEdge, count - query);
      TileMask mask{keys, first + query + shift - key, Reach(d)};
      if (mask.isEmpty(queries))
        continue;
      product<false>(queries, padded(keys), d.head, s.q + query * width, width,
                     1, s.kTransposed, tileEdge, s.scores, tileEdge);
      if (!mask.isFull(queries))
        maskScores(s.scores, queries, mask);
      applyMask(call, s.scores, batch, group, member, first + query, queries,
                key, keys);
      softmaxTile(s.scores, queries, padded(keys), s.maxima + query,
                  s.sums + query, s.o + query * width, width);
      if (!dropout.isNone()) {
        dropout.fill(batch, group, member, first + query, queries, key, keys,
                     s.factors);
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < keys; ++j)
            s.scores[i * tileEdge + j] *= s.factors[i * tileEdge + j];
      }
      product<true>(queries, width, keys, s.scores, tileEdge, 1, s.v, width,
                    s.o + query * width, width);
    }
  }
  finishForward(call, s, batch, group, member, first, count);
}

static void forward(const AttentionCall &call, int64_t task, void *scratch) {
  const heddle_rt_attention_desc &d = *call.desc;
  ForwardScratch s(d, Scratch(scratch));
  Dropout dropout(call);
  int64_t chunks = (d.queries + attentionChunk - 1) / attentionChunk;
  // The last chunks see the most keys, so they go first.
  int64_t heads = d.batch * d.groups;
  int64_t chunk = chunks - 1 - task / heads, head = task % heads;
  int64_t first = chunk * attentionChunk;
  int64_t count = minimum(attentionChunk, d.queries - first);
  for (int64_t member = 0; member < d.group_size; ++member)
    forwardHead(call, dropout, s, head / d.groups, head % d.groups, member,
                first, count);
}

} // namespace HEDDLE_RT_ISA
} // namespace heddle::runtime
