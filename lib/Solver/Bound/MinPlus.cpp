//===- MinPlus.cpp - The innermost loops ----------------------------------===//

#include "Bound/MinPlus.h"

#include <algorithm>

namespace heddle::solver {

namespace {

#define HEDDLE_INLINE inline __attribute__((always_inline))

HEDDLE_INLINE void minMinusRowsBody(const double *__restrict table,
                                    const double *__restrict minus, size_t rows,
                                    size_t columns, double *__restrict out) {
  for (size_t c = 0; c < columns; ++c)
    out[c] = table[c] - minus[0];
  for (size_t r = 1; r < rows; ++r) {
    const double *__restrict row = table + r * columns;
    double less = minus[r];
    for (size_t c = 0; c < columns; ++c) {
      double value = row[c] - less;
      out[c] = value < out[c] ? value : out[c];
    }
  }
}

HEDDLE_INLINE void addToBody(double *__restrict sum,
                             const double *__restrict add, size_t count) {
  for (size_t i = 0; i < count; ++i)
    sum[i] += add[i];
}

HEDDLE_INLINE double leastBody(const double *values, size_t count) {
  // Keeps four minima at a time. With one, each comparison would wait for the
  // previous one.
  double least[4] = {values[0], values[0], values[0], values[0]};
  size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (size_t j = 0; j < 4; ++j)
      least[j] = values[i + j] < least[j] ? values[i + j] : least[j];
  for (; i < count; ++i)
    least[0] = std::min(least[0], values[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

struct Kernels {
  void (*minMinusRows)(const double *, const double *, size_t, size_t,
                       double *);
  void (*addTo)(double *, const double *, size_t);
  double (*least)(const double *, size_t);
};

void minMinusRowsPlain(const double *table, const double *minus, size_t rows,
                       size_t columns, double *out) {
  minMinusRowsBody(table, minus, rows, columns, out);
}
void addToPlain(double *sum, const double *add, size_t count) {
  addToBody(sum, add, count);
}
double leastPlain(const double *values, size_t count) {
  return leastBody(values, count);
}

#ifdef __x86_64__
#define HEDDLE_AVX2 __attribute__((target("avx2")))
HEDDLE_AVX2 void minMinusRowsAvx2(const double *table, const double *minus,
                                  size_t rows, size_t columns, double *out) {
  minMinusRowsBody(table, minus, rows, columns, out);
}
HEDDLE_AVX2 void addToAvx2(double *sum, const double *add, size_t count) {
  addToBody(sum, add, count);
}
HEDDLE_AVX2 double leastAvx2(const double *values, size_t count) {
  return leastBody(values, count);
}
#endif

Kernels choose() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2"))
    return {minMinusRowsAvx2, addToAvx2, leastAvx2};
#endif
  return {minMinusRowsPlain, addToPlain, leastPlain};
}

const Kernels &kernels() {
  static const Kernels chosen = choose();
  return chosen;
}

} // namespace

void minMinusRows(const double *table, const double *minus, size_t rows,
                  size_t columns, double *out) {
  kernels().minMinusRows(table, minus, rows, columns, out);
}

void addTo(double *sum, const double *add, size_t count) {
  kernels().addTo(sum, add, count);
}

double least(const double *values, size_t count) {
  return kernels().least(values, count);
}

} // namespace heddle::solver
