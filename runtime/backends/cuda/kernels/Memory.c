//===- Memory.c - Copies, sums of ranks, gradients of tables --------------===//

#include "Common.h"

/// Copies runs of `units` units of `unit` bytes (1, 2, 4, 8 or 16). The strides
/// are in bytes.
KERNEL heddle_copy_runs(const char *from, int64_t fromStride, char *to,
                        int64_t toStride, int64_t runs, int64_t units,
                        int64_t unit) {
  typedef uint32_t Wide __attribute__((vector_size(16)));
  int64_t step = blocks() * blockThreads();
  for (int64_t i = thread(); i < runs * units; i += step) {
    int64_t run = i / units, within = i % units * unit;
    const char *source = from + run * fromStride + within;
    char *target = to + run * toStride + within;
    if (unit == 16)
      *(Wide *)target = *(const Wide *)source;
    else if (unit == 8)
      *(uint64_t *)target = *(const uint64_t *)source;
    else if (unit == 4)
      *(uint32_t *)target = *(const uint32_t *)source;
    else if (unit == 2)
      *(uint16_t *)target = *(const uint16_t *)source;
    else
      *target = *source;
  }
}

#define REDUCE(T)                                                              \
  {                                                                            \
    T sum = ((const T *)ins[0])[inOffset + i];                                 \
    for (int64_t member = 1; member < members; ++member) {                     \
      T value = ((const T *)ins[member])[inOffset + i];                        \
      if (reduction == HEDDLE_RT_SUM)                                          \
        sum += value;                                                          \
      else if (value > sum || value != value)                                  \
        sum = value;                                                           \
    }                                                                          \
    for (int64_t out = 0; out < numOuts; ++out)                                \
      ((T *)outs[out])[outOffset + i] = sum;                                   \
    break;                                                                     \
  }

/// Reduces elements [inOffset, inOffset + count) of the members' inputs, in the
/// order of the members, and writes the result to each output from outOffset
/// on. bf16 and f16 are summed in f32 and rounded once.
KERNEL heddle_reduce(const void *const *ins, int64_t members, int64_t inOffset,
                     void *const *outs, int64_t numOuts, int64_t outOffset,
                     int64_t count, int64_t type, int64_t reduction) {
  int64_t step = blocks() * blockThreads();
  for (int64_t i = thread(); i < count; i += step) {
    switch (type) {
    case HEDDLE_RT_F32:
      REDUCE(float)
    case HEDDLE_RT_F64:
      REDUCE(double)
    case HEDDLE_RT_I1:
      REDUCE(uint8_t)
    case HEDDLE_RT_I8:
      REDUCE(int8_t)
    case HEDDLE_RT_I32:
      REDUCE(int32_t)
    case HEDDLE_RT_I64:
      REDUCE(int64_t)
    default: {
      float sum = load(ins[0], (int32_t)type, inOffset + i);
      for (int64_t member = 1; member < members; ++member) {
        float value = load(ins[member], (int32_t)type, inOffset + i);
        if (reduction == HEDDLE_RT_SUM)
          sum += value;
        else if (value > sum || value != value)
          sum = value;
      }
      for (int64_t out = 0; out < numOuts; ++out)
        store(outs[out], (int32_t)type, outOffset + i, sum);
    }
    }
  }
}

enum {
  kEmbeddingThreads = 128,
  /// The words of 32 bits that tell which ids of a tile are equal: a word for
  /// each thread.
  kEmbeddingWords = kEmbeddingThreads,
  kEmbeddingTile = kEmbeddingWords * kWarp, ///< in ids
  kEmbeddingColumns = 8 ///< that a thread sums at the same time
};

/// Writes the positions of the ids of a tile that equal `id`, in ascending
/// order. Returns their number. All threads of a block call it. `equal` is
/// memory for kEmbeddingWords words.
static inline int32_t findEqual(const int32_t *ids, int64_t count, int32_t id,
                                uint32_t SHARED_POINTER equal,
                                uint16_t SHARED_POINTER positions) {
  int64_t lane = threadInBlock();
  for (int64_t i = lane; i - lane < count; i += kEmbeddingThreads) {
    uint32_t bits = ballot(i < count && ids[i] == id);
    if (lane % kWarp == 0)
      equal[i / kWarp] = bits;
  }
  __syncthreads();
  int64_t words = (count + kWarp - 1) / kWarp;
  int32_t before = 0, total = 0;
  for (int64_t word = 0; word < words; ++word) {
    int32_t ones = __builtin_popcount(equal[word]);
    before += word < lane ? ones : 0;
    total += ones;
  }
  if (lane < words)
    for (uint32_t bits = equal[lane]; bits; bits &= bits - 1)
      positions[before++] = (uint16_t)(lane * kWarp + __builtin_ctz(bits));
  __syncthreads();
  return total;
}

/// table[ids[i] - first, :] += rows[i, :], for rows with equal ids in their
/// order. One block for each id: the block of the first of equal ids adds all
/// of them. It reads the ids once, however many columns there are.
KERNEL heddle_embedding_grad(const int32_t *ids, int64_t numIds,
                             const void *rows, int64_t type, int64_t width,
                             int64_t first, int64_t tableRows, float *table) {
  SHARED uint32_t earlier[kEmbeddingThreads / kWarp];
  SHARED uint32_t equal[kEmbeddingWords];
  SHARED uint16_t positions[kEmbeddingTile];
  int64_t own = block(), lane = threadInBlock();
  int32_t id = ids[own];
  int64_t row = (int64_t)id - first;
  if (row < 0 || row >= tableRows)
    return;
  int32_t found = 0;
  for (int64_t i = lane; i < own; i += kEmbeddingThreads)
    found |= ids[i] == id;
  uint32_t bits = ballot(found);
  if (lane % kWarp == 0)
    earlier[lane / kWarp] = bits;
  __syncthreads();
  for (int64_t warp = 0; warp < kEmbeddingThreads / kWarp; ++warp)
    if (earlier[warp])
      return;
  for (int64_t begin = own; begin < numIds; begin += kEmbeddingTile) {
    int64_t rest = numIds - begin;
    int32_t total =
        findEqual(ids + begin, rest < kEmbeddingTile ? rest : kEmbeddingTile,
                  id, equal, positions);
    if (total == 0)
      continue;
    for (int64_t column = lane; column < width;
         column += kEmbeddingThreads * kEmbeddingColumns) {
      float *to = table + row * width + column;
      int64_t left = width - column;
      float sums[kEmbeddingColumns];
#pragma unroll
      for (int c = 0; c < kEmbeddingColumns; ++c)
        sums[c] = c * kEmbeddingThreads < left ? to[c * kEmbeddingThreads] : 0;
      for (int32_t i = 0; i < total; ++i) {
        int64_t from = (begin + positions[i]) * width + column;
#pragma unroll
        for (int c = 0; c < kEmbeddingColumns; ++c)
          if (c * kEmbeddingThreads < left)
            sums[c] += load(rows, (int32_t)type, from + c * kEmbeddingThreads);
      }
#pragma unroll
      for (int c = 0; c < kEmbeddingColumns; ++c)
        if (c * kEmbeddingThreads < left)
          to[c * kEmbeddingThreads] = sums[c];
    }
  }
}

/// Rounds a sum [rows, columns] once, to a matrix c. Adds c itself if
/// `accumulate` is not 0, and bias[j] to each row if there is a bias.
KERNEL heddle_finish_sum(const float *sum, void *c, int64_t cType,
                         int64_t rowStride, int64_t accumulate,
                         const void *bias, int64_t biasType, int64_t rows,
                         int64_t columns) {
  int64_t step = blocks() * blockThreads();
  for (int64_t i = thread(); i < rows * columns; i += step) {
    int64_t column = i % columns, at = i / columns * rowStride + column;
    float value = sum[i];
    if (accumulate)
      value += load(c, (int32_t)cType, at);
    if (bias)
      value += load(bias, (int32_t)biasType, column);
    store(c, (int32_t)cType, at, value);
  }
}

/// Adds bias[j] to each row of a matrix.
KERNEL heddle_add_bias(void *c, int64_t cType, int64_t rowStride,
                       const void *bias, int64_t biasType, int64_t rows,
                       int64_t columns) {
  int64_t step = blocks() * blockThreads();
  for (int64_t i = thread(); i < rows * columns; i += step) {
    int64_t column = i % columns, at = i / columns * rowStride + column;
    store(c, (int32_t)cType, at,
          load(c, (int32_t)cType, at) + load(bias, (int32_t)biasType, column));
  }
}
