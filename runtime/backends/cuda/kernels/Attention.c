//===- Attention.c - Attention, forward and backward ----------------------===//
//
// A warp computes one row. For the scores of a tile of 32, each lane takes one
// key (or query). For the sums, each lane takes elements of the head. The
// softmax is computed in one pass (Milakov and Gimelshein 2018); the backward
// pass computes probabilities again from the stored logarithms of sums, as
// FlashAttention-2 does. Memory is linear; sums have a fixed order.
//
//===----------------------------------------------------------------------===//

#include "Common.h"

typedef heddle_rt_attention_desc Desc;
typedef heddle_rt_attention_offsets Offsets;

/// `kWarps` is also the block's size in warps; `kPieces` bounds the head at
/// kPieces * 32 elements. LibraryCalls.cpp checks it.
enum { kWarps = 4, kPieces = 8 };

static const float kLog2E = 1.44269504088896341f;
static const float kLn2 = 0.69314718055994531f;

static inline float sumOfWarp(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value += __nvvm_shfl_sync_bfly_f32(kAllLanes, value, distance, 31);
  return value;
}
static inline float maxOfWarp(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    float other = __nvvm_shfl_sync_bfly_f32(kAllLanes, value, distance, 31);
    value = other > value || other != other ? other : value;
  }
  return value;
}
static inline float dot(int32_t type, const void *a, int64_t aStart,
                        const void *b, int64_t bStart, int64_t head) {
  float sum = 0;
  for (int64_t d = 0; d < head; ++d)
    sum += load(a, type, aStart + d) * load(b, type, bStart + d);
  return sum;
}

/// The place of a query, in the local tensors.
typedef struct {
  int64_t batch, query, group, member;
} Row;

static inline int64_t queryStart(const Desc *desc, Row row) {
  return row.batch * desc->q_batch_stride + row.query * desc->q_row_stride +
         row.group * desc->q_group_stride + row.member * desc->q_head_stride;
}
static inline int64_t keyStart(const Desc *desc, Row row, int64_t key) {
  return row.batch * desc->k_batch_stride + key * desc->k_row_stride +
         row.group * desc->k_group_stride;
}
static inline int64_t valueStart(const Desc *desc, Row row, int64_t key) {
  return row.batch * desc->v_batch_stride + key * desc->v_row_stride +
         row.group * desc->v_group_stride;
}
/// The index of a row among all rows, which dense tensors hold in this order.
static inline int64_t denseRow(const Desc *desc, Row row) {
  return ((row.batch * desc->queries + row.query) * desc->groups + row.group) *
             desc->group_size +
         row.member;
}

/// Returns the mask's addend of a scaled score: -infinity for a key that the
/// query does not see.
static inline float addend(const Desc *desc, const Offsets *offsets,
                           const void *mask, Row row, int64_t key) {
  int64_t global = offsets->key + key, query = offsets->query + row.query;
  float hidden = -__builtin_inff();
  if (key >= desc->keys || global >= desc->global_keys)
    return hidden;
  if (desc->causal && global > query)
    return hidden;
  if (desc->window > 0 &&
      (global <= query - desc->window || global >= query + desc->window))
    return hidden;
  if (desc->mask_kind == HEDDLE_RT_MASK_NONE)
    return 0;
  int64_t at =
      row.batch * desc->mask_batch_stride + row.query * desc->mask_row_stride +
      row.group * desc->mask_group_stride +
      row.member * desc->mask_head_stride + global * desc->mask_key_stride;
  if (desc->mask_kind == HEDDLE_RT_MASK_SEEN)
    return ((const uint8_t *)mask)[at] ? 0 : hidden;
  float added = ((const float *)mask)[at];
  return added <= -1e30f ? hidden : added;
}

/// Returns 0 for a dropped element, else 1 / (1 - rate): see abi.h.
static float keep(const Desc *desc, const Offsets *offsets, const int64_t *step,
                  Row row, int64_t key) {
  if (desc->dropout <= 0)
    return 1;
  uint64_t element = (uint64_t)(offsets->batch + row.batch);
  element = element * desc->global_groups + offsets->group + row.group;
  element =
      element * desc->global_group_size + offsets->group_member + row.member;
  element = element * desc->global_queries + offsets->query + row.query;
  element = element * desc->global_keys + offsets->key + key;
  uint64_t counter = element / 4;
  // Philox4x32-10: see heddle_rt/philox.h.
  uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
  uint32_t c2 = (uint32_t)*step, c3 = desc->op_id;
  uint32_t k0 = (uint32_t)desc->seed, k1 = (uint32_t)(desc->seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  uint64_t lane = element % 4;
  uint32_t word = lane == 0 ? c0 : lane == 1 ? c1 : lane == 2 ? c2 : c3;
  return (double)word < (double)desc->dropout * 4294967296.0
             ? 0.0f
             : 1.0f / (1.0f - desc->dropout);
}

/// Adds weights[i] * tensor[start(i) + own elements] over a tile.
#define ADD_TILE(sums, weights, tensor, type, start)                           \
  for (int64_t i = 0; i < kWarp; ++i) {                                        \
    float weight = weights[i];                                                 \
    if (weight != 0) {                                                         \
      int64_t begin = (start);                                                 \
      _Pragma("unroll") for (int piece = 0; piece < kPieces; ++piece) {        \
        int64_t d = piece * kWarp + lane;                                      \
        if (d < desc->head)                                                    \
          sums[piece] += weight * load(tensor, type, begin + d);               \
      }                                                                        \
    }                                                                          \
  }

static inline void storeRow(const Desc *desc, int64_t lane, void *to,
                            int64_t start, const float *sums, float factor) {
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    int64_t d = piece * kWarp + lane;
    if (d < desc->head)
      store(to, desc->type, start + d, sums[piece] * factor);
  }
}

static inline Row rowOf(const Desc *desc, int64_t index) {
  Row row;
  row.member = index % desc->group_size;
  index /= desc->group_size;
  row.group = index % desc->groups;
  index /= desc->groups;
  row.query = index % desc->queries;
  row.batch = index / desc->queries;
  return row;
}

/// A warp for each query.
KERNEL heddle_attention(const Desc *desc, const Offsets *offsets,
                        const int64_t *step, const void *mask, const void *q,
                        const void *k, const void *v, void *o, float *lse) {
  SHARED float tiles[kWarps][kWarp];
  int64_t lane = threadInBlock() % kWarp, index = thread() / kWarp;
  if (index >= desc->batch * desc->queries * desc->groups * desc->group_size)
    return;
  __attribute__((address_space(3))) float *tile =
      tiles[threadInBlock() / kWarp];
  Row row = rowOf(desc, index);
  int32_t type = desc->type;
  int64_t query = queryStart(desc, row);
  float sums[kPieces] = {0};
  float most = -__builtin_inff(), total = 0;
  int64_t end = desc->keys;
  if (desc->causal) {
    int64_t last = offsets->query + row.query - offsets->key + 1;
    end = last < end ? last : end;
  }
  for (int64_t first = 0; first < end; first += kWarp) {
    int64_t key = first + lane;
    float score = addend(desc, offsets, mask, row, key);
    int visible = score != -__builtin_inff();
    if (visible)
      score = (dot(type, q, query, k, keyStart(desc, row, key), desc->head) *
                   desc->scale +
               score) *
              kLog2E;
    float newMost = maxOfWarp(score);
    newMost = newMost > most || newMost != newMost ? newMost : most;
    if (newMost == -__builtin_inff())
      continue;
    float weight = visible ? __nvvm_ex2_approx_f(score - newMost) : 0;
    float old = __nvvm_ex2_approx_f(most - newMost);
    most = newMost;
    total = total * old + sumOfWarp(weight);
    tile[lane] = visible ? weight * keep(desc, offsets, step, row, key) : 0;
    __nvvm_bar_warp_sync(kAllLanes);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
      sums[piece] *= old;
    ADD_TILE(sums, tile, v, type, valueStart(desc, row, first + i))
    __nvvm_bar_warp_sync(kAllLanes);
  }
  int64_t dense = denseRow(desc, row);
  storeRow(desc, lane, o, dense * desc->head, sums, total > 0 ? 1 / total : 0);
  if (lane == 0)
    lse[dense] = total > 0 ? (most + __nvvm_lg2_approx_f(total)) * kLn2
                           : -__builtin_inff();
}

/// The values that a lane has for one query and one key in the backward pass.
typedef struct {
  float weight; ///< probability, with dropout
  float score;  ///< gradient of the scaled score, times the scale
} Pair;

static Pair pairOf(const Desc *desc, const Offsets *offsets,
                   const int64_t *step, const void *mask, Row row, int64_t key,
                   const void *q, const void *k, const void *v, const void *dO,
                   const float *lse, float delta) {
  Pair pair = {0, 0};
  float added = addend(desc, offsets, mask, row, key);
  if (added == -__builtin_inff())
    return pair;
  int64_t dense = denseRow(desc, row);
  float score = dot(desc->type, q, queryStart(desc, row), k,
                    keyStart(desc, row, key), desc->head) *
                    desc->scale +
                added;
  float probability = __nvvm_ex2_approx_f((score - lse[dense]) * kLog2E);
  float factor = keep(desc, offsets, step, row, key);
  float gradient = dot(desc->type, dO, dense * desc->head, v,
                       valueStart(desc, row, key), desc->head);
  pair.weight = probability * factor;
  pair.score = probability * (gradient * factor - delta) * desc->scale;
  return pair;
}

/// One warp for each query computes the query's gradient.
KERNEL heddle_attention_grad_q(const Desc *desc, const Offsets *offsets,
                               const int64_t *step, const void *mask,
                               const void *q, const void *k, const void *v,
                               const void *o, const float *lse, const void *dO,
                               void *dQ) {
  SHARED float tiles[kWarps][kWarp];
  int64_t lane = threadInBlock() % kWarp, index = thread() / kWarp;
  if (index >= desc->batch * desc->queries * desc->groups * desc->group_size)
    return;
  __attribute__((address_space(3))) float *tile =
      tiles[threadInBlock() / kWarp];
  Row row = rowOf(desc, index);
  int64_t dense = denseRow(desc, row) * desc->head;
  float delta = dot(desc->type, dO, dense, o, dense, desc->head);
  float sums[kPieces] = {0};
  int64_t end = desc->keys;
  if (desc->causal) {
    int64_t last = offsets->query + row.query - offsets->key + 1;
    end = last < end ? last : end;
  }
  for (int64_t first = 0; first < end; first += kWarp) {
    tile[lane] = pairOf(desc, offsets, step, mask, row, first + lane, q, k, v,
                        dO, lse, delta)
                     .score;
    __nvvm_bar_warp_sync(kAllLanes);
    ADD_TILE(sums, tile, k, desc->type, keyStart(desc, row, first + i))
    __nvvm_bar_warp_sync(kAllLanes);
  }
  storeRow(desc, lane, dQ,
           row.batch * desc->dq_batch_stride + row.query * desc->dq_row_stride +
               row.group * desc->dq_group_stride +
               row.member * desc->dq_head_stride,
           sums, 1);
}

/// One warp for each key computes the gradients of the key and of its value.
KERNEL heddle_attention_grad_kv(const Desc *desc, const Offsets *offsets,
                                const int64_t *step, const void *mask,
                                const void *q, const void *k, const void *v,
                                const void *o, const float *lse, const void *dO,
                                void *dK, void *dV) {
  SHARED float weightTiles[kWarps][kWarp];
  SHARED float scoreTiles[kWarps][kWarp];
  int64_t lane = threadInBlock() % kWarp, index = thread() / kWarp;
  if (index >= desc->batch * desc->keys * desc->groups)
    return;
  __attribute__((address_space(3))) float *weights =
      weightTiles[threadInBlock() / kWarp];
  __attribute__((address_space(3))) float *scores =
      scoreTiles[threadInBlock() / kWarp];
  int64_t group = index % desc->groups, rest = index / desc->groups;
  int64_t key = rest % desc->keys, batch = rest / desc->keys;
  float keySums[kPieces] = {0}, valueSums[kPieces] = {0};
  int64_t begin = 0;
  if (desc->causal) {
    begin = offsets->key + key - offsets->query;
    begin = begin < 0 ? 0 : begin / kWarp * kWarp;
  }
  for (int64_t member = 0; member < desc->group_size; ++member)
    for (int64_t first = begin; first < desc->queries; first += kWarp) {
      Row row = {batch, first + lane, group, member};
      Pair pair = {0, 0};
      if (row.query < desc->queries) {
        int64_t dense = denseRow(desc, row) * desc->head;
        float delta = dot(desc->type, dO, dense, o, dense, desc->head);
        pair = pairOf(desc, offsets, step, mask, row, key, q, k, v, dO, lse,
                      delta);
      }
      weights[lane] = pair.weight;
      scores[lane] = pair.score;
      __nvvm_bar_warp_sync(kAllLanes);
      Row tile = {batch, first, group, member};
      ADD_TILE(valueSums, weights, dO, desc->type,
               (tile.query = first + i, denseRow(desc, tile) * desc->head))
      ADD_TILE(keySums, scores, q, desc->type,
               (tile.query = first + i, queryStart(desc, tile)))
      __nvvm_bar_warp_sync(kAllLanes);
    }
  storeRow(desc, lane, dK,
           batch * desc->dk_batch_stride + key * desc->dk_row_stride +
               group * desc->dk_group_stride,
           keySums, 1);
  storeRow(desc, lane, dV,
           batch * desc->dv_batch_stride + key * desc->dv_row_stride +
               group * desc->dv_group_stride,
           valueSums, 1);
}
