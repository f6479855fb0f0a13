//===- Epilogues.c - What follows a product that cuBLASLt lacks -----------===//

#include "Common.h"

/// Returns the s with gelu(x) = x s, for gelu in the tanh form: 1 + tanh(u) is
/// 2 / (1 + exp(-2 u)).
static inline float geluShare(float x) {
  float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  const float kLog2E = 1.4426950408889634f;
  return 1 / (1 + __nvvm_ex2_approx_f(-2 * kLog2E * u));
}

/// c = gelu(c + bias), and c + bias is kept in `input`, which has the layout of
/// c. The bias may be null.
KERNEL heddle_gelu(void *c, void *input, int64_t type, int64_t rowStride,
                   const void *bias, int64_t biasType, int64_t rows,
                   int64_t columns) {
  int64_t step = blocks() * blockThreads();
  for (int64_t i = thread(); i < rows * columns; i += step) {
    int64_t column = i % columns, at = i / columns * rowStride + column;
    float x = load(c, (int32_t)type, at);
    if (bias)
      x += load(bias, (int32_t)biasType, column);
    store(input, (int32_t)type, at, x);
    store(c, (int32_t)type, at, x * geluShare(x));
  }
}

/// c *= the derivative of gelu at `input`, which has the layout of c.
KERNEL heddle_gelu_grad(void *c, const void *input, int64_t type,
                        int64_t rowStride, int64_t rows, int64_t columns) {
  int64_t step = blocks() * blockThreads();
  for (int64_t i = thread(); i < rows * columns; i += step) {
    int64_t at = i / columns * rowStride + i % columns;
    float x = load(input, (int32_t)type, at), share = geluShare(x);
    float slope = 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
    store(c, (int32_t)type, at,
          load(c, (int32_t)type, at) *
              (share + 2 * x * share * (1 - share) * slope));
  }
}

/// sums[i] = the sum of line i of a matrix, in the order of its elements.
KERNEL heddle_sum_lines(const void *matrix, int64_t type, int64_t lineStride,
                        int64_t elementStride, int64_t lines, int64_t elements,
                        void *sums, int64_t sumType) {
  int64_t step = blocks() * blockThreads();
  for (int64_t i = thread(); i < lines; i += step) {
    float sum = 0;
    for (int64_t k = 0; k < elements; ++k)
      sum += load(matrix, (int32_t)type, i * lineStride + k * elementStride);
    store(sums, (int32_t)sumType, i, sum);
  }
}
