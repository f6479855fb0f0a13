//===- InnerVector.h - Vectors, exp2, small products ------------*- C++ -*-===//
//
// Part of IsaBuild.h, which explains it.
//
//===----------------------------------------------------------------------===//

#include "support/Sanitizer.h"

#include <stdint.h>

namespace heddle::runtime {
namespace HEDDLE_RT_ISA {

constexpr int64_t lanes = HEDDLE_RT_VECTOR_BYTES / 4;
typedef float Vector __attribute__((vector_size(HEDDLE_RT_VECTOR_BYTES)));
typedef int32_t VectorInt __attribute__((vector_size(HEDDLE_RT_VECTOR_BYTES)));
/// A Vector at an address of any alignment. It may alias any other type.
typedef float VectorAt
    __attribute__((vector_size(HEDDLE_RT_VECTOR_BYTES), aligned(4), may_alias));

constexpr float minusInfinity = -__builtin_inff();

static inline int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t maximum(int64_t a, int64_t b) { return a > b ? a : b; }
/// Rounds a row's length up to a multiple of `lanes`.
static inline int64_t padded(int64_t count) {
  return (count + lanes - 1) / lanes * lanes;
}

static inline Vector load(const float *from) {
  noteRead(from, sizeof(Vector));
  return *reinterpret_cast<const VectorAt *>(from);
}
static inline void store(float *to, Vector value) {
  noteWrite(to, sizeof(Vector));
  *reinterpret_cast<VectorAt *>(to) = value;
}
static inline Vector splat(float value) {
  Vector zero = {};
  return zero + value;
}

/// Returns the upper half of the first 2 * `half` lanes, moved to the lower
/// lanes. Horizontal sums and maxima combine halves in this fixed order.
static inline Vector upperHalf(Vector value, int64_t half) {
  VectorInt index = {};
  for (int64_t i = 0; i < half; ++i)
    index[i] = int32_t(i + half);
  return __builtin_shufflevector(value, index);
}
static inline float horizontalMax(Vector value) {
#pragma clang loop unroll(full)
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    Vector other = upperHalf(value, half);
    value = value > other ? value : other;
  }
  return value[0];
}
static inline float horizontalSum(Vector value) {
#pragma clang loop unroll(full)
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    value += upperHalf(value, half);
  return value[0];
}

/// Computes 2^x for x <= 127; returns 0 below -125. Uses a polynomial of degree
/// 6 on [-1/2, 1/2] through Chebyshev points; the relative error is below 2
/// ulp.
static inline Vector exp2(Vector x) {
  constexpr float magic = 12582912.0f; // 1.5 * 2^23: rounds to integers
  Vector shifted = x + magic;
  VectorInt power = reinterpret_cast<VectorInt>(shifted);
  Vector f = x - (shifted - magic);
  Vector p = splat(0.0001546144469856913f);
  p = p * f + 0.0013400428177615838f;
  p = p * f + 0.009618056678524637f;
  p = p * f + 0.05550327226670302f;
  p = p * f + 0.24022650922288757f;
  p = p * f + 0.6931472067028326f;
  p = p * f + 1.0f;
  Vector result =
      reinterpret_cast<Vector>(reinterpret_cast<VectorInt>(p) + (power << 23));
  return x < -125.0f ? splat(0.0f) : result;
}

/// Computes one register tile: C[Rows x Columns*lanes] = A B, or += if Add.
/// Element (i, k) of A lies at a[i * aRow + k * aColumn]. The rows of B and C
/// are contiguous.
template <int Rows, int Columns, bool Add>
static inline void tileProduct(int64_t depth, const float *a, int64_t aRow,
                               int64_t aColumn, const float *b, int64_t bRow,
                               float *c, int64_t cRow) {
  Vector sums[Rows][Columns];
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < Columns; ++j)
      sums[i][j] = Add ? load(c + i * cRow + j * lanes) : splat(0.0f);
  for (int64_t k = 0; k < depth; ++k) {
    Vector row[Columns];
#pragma clang loop unroll(full)
    for (int j = 0; j < Columns; ++j)
      row[j] = load(b + k * bRow + j * lanes);
#pragma clang loop unroll(full)
    for (int i = 0; i < Rows; ++i) {
      Vector element = splat(a[i * aRow + k * aColumn]);
#pragma clang loop unroll(full)
      for (int j = 0; j < Columns; ++j)
        sums[i][j] += element * row[j];
    }
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < Columns; ++j)
      store(c + i * cRow + j * lanes, sums[i][j]);
}

/// Rows and vectors of a register tile. AVX-512 keeps 24 sums in its 32
/// registers, other instruction sets 8 in 16.
constexpr int tileRows = HEDDLE_RT_VECTOR_BYTES == 64 ? 6 : 4;
constexpr int tileColumns = HEDDLE_RT_VECTOR_BYTES == 64 ? 4 : 2;

template <int Columns, bool Add>
static void columnProduct(int64_t rows, int64_t depth, const float *a,
                          int64_t aRow, int64_t aColumn, const float *b,
                          int64_t bRow, float *c, int64_t cRow) {
  int64_t i = 0;
  for (; i + tileRows <= rows; i += tileRows)
    tileProduct<tileRows, Columns, Add>(depth, a + i * aRow, aRow, aColumn, b,
                                        bRow, c + i * cRow, cRow);
  for (; i + 2 <= rows; i += 2)
    tileProduct<2, Columns, Add>(depth, a + i * aRow, aRow, aColumn, b, bRow,
                                 c + i * cRow, cRow);
  for (; i < rows; ++i)
    tileProduct<1, Columns, Add>(depth, a + i * aRow, aRow, aColumn, b, bRow,
                                 c + i * cRow, cRow);
}

/// Computes C[rows x columns] = A B, or += if Add. `columns` is a multiple of
/// `lanes`.
template <bool Add>
static void product(int64_t rows, int64_t columns, int64_t depth,
                    const float *a, int64_t aRow, int64_t aColumn,
                    const float *b, int64_t bRow, float *c, int64_t cRow) {
  int64_t j = 0;
  for (; j + tileColumns * lanes <= columns; j += tileColumns * lanes)
    columnProduct<tileColumns, Add>(rows, depth, a, aRow, aColumn, b + j, bRow,
                                    c + j, cRow);
  for (; j < columns; j += lanes)
    columnProduct<1, Add>(rows, depth, a, aRow, aColumn, b + j, bRow, c + j,
                          cRow);
}

} // namespace HEDDLE_RT_ISA
} // namespace heddle::runtime
