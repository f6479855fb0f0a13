//===- MinPlus.h - The innermost loops --------------------------*- C++ -*-===//
//
// Each loop is compiled twice: for any x86-64 and for AVX2. The program chooses
// when it runs, so that one binary serves all machines. Both variants do the
// same operations on every element and so give the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_MINPLUS_H
#define HEDDLE_LIB_SOLVER_BOUND_MINPLUS_H

#include <cstddef>

namespace heddle::solver {

/// out[c] = min over r of table[r * columns + c] - minus[r]; at least one row.
void minMinusRows(const double *table, const double *minus, size_t rows,
                  size_t columns, double *out);

/// sum[i] += add[i].
void addTo(double *sum, const double *add, size_t count);

/// The least of `count` values; at least one.
double least(const double *values, size_t count);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_MINPLUS_H
