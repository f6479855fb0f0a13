//===- MinPlus.cpp - The innermost loops ----------------------------------===//

#include "Bound/MinPlus.h"

#include <algorithm>

namespace heddle::solver {

namespace {

#define HEDDLE_INLINE inline __attribute__((always_inline))

HEDDLE_INLINE void minMinusRowsBody(const double *__restrict Table,
                                    const double *__restrict Minus, size_t Rows,
                                    size_t Columns, double *__restrict Out) {
  for (size_t C = 0; C < Columns; ++C)
    Out[C] = Table[C] - Minus[0];
  for (size_t R = 1; R < Rows; ++R) {
    const double *__restrict Row = Table + R * Columns;
    double Less = Minus[R];
    for (size_t C = 0; C < Columns; ++C) {
      double Value = Row[C] - Less;
      Out[C] = Value < Out[C] ? Value : Out[C];
    }
  }
}

HEDDLE_INLINE void addToBody(double *__restrict Sum,
                             const double *__restrict Add, size_t Count) {
  for (size_t I = 0; I < Count; ++I)
    Sum[I] += Add[I];
}

HEDDLE_INLINE double leastBody(const double *Values, size_t Count) {
  // Four at a time: one after another would wait for each comparison.
  double Least[4] = {Values[0], Values[0], Values[0], Values[0]};
  size_t I = 0;
  for (; I + 4 <= Count; I += 4)
    for (size_t J = 0; J < 4; ++J)
      Least[J] = Values[I + J] < Least[J] ? Values[I + J] : Least[J];
  for (; I < Count; ++I)
    Least[0] = std::min(Least[0], Values[I]);
  return std::min(std::min(Least[0], Least[1]), std::min(Least[2], Least[3]));
}

struct Kernels {
  void (*MinMinusRows)(const double *, const double *, size_t, size_t,
                       double *);
  void (*AddTo)(double *, const double *, size_t);
  double (*Least)(const double *, size_t);
};

void minMinusRowsPlain(const double *Table, const double *Minus, size_t Rows,
                       size_t Columns, double *Out) {
  minMinusRowsBody(Table, Minus, Rows, Columns, Out);
}
void addToPlain(double *Sum, const double *Add, size_t Count) {
  addToBody(Sum, Add, Count);
}
double leastPlain(const double *Values, size_t Count) {
  return leastBody(Values, Count);
}

#ifdef __x86_64__
#define HEDDLE_AVX2 __attribute__((target("avx2")))
HEDDLE_AVX2 void minMinusRowsAvx2(const double *Table, const double *Minus,
                                  size_t Rows, size_t Columns, double *Out) {
  minMinusRowsBody(Table, Minus, Rows, Columns, Out);
}
HEDDLE_AVX2 void addToAvx2(double *Sum, const double *Add, size_t Count) {
  addToBody(Sum, Add, Count);
}
HEDDLE_AVX2 double leastAvx2(const double *Values, size_t Count) {
  return leastBody(Values, Count);
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
  static const Kernels Chosen = choose();
  return Chosen;
}

} // namespace

void minMinusRows(const double *Table, const double *Minus, size_t Rows,
                  size_t Columns, double *Out) {
  kernels().MinMinusRows(Table, Minus, Rows, Columns, Out);
}

void addTo(double *Sum, const double *Add, size_t Count) {
  kernels().AddTo(Sum, Add, Count);
}

double least(const double *Values, size_t Count) {
  return kernels().Least(Values, Count);
}

} // namespace heddle::solver
