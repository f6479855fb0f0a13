//===- MinPlus.h - The innermost loops --------------------------*- C++ -*-===//
//
// Compiled for the instructions of every x86-64 and once more for AVX2; chosen
// when the program runs, so that one binary serves all machines. Both variants
// do the same operations on every element and so give the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_MINPLUS_H
#define HEDDLE_LIB_SOLVER_BOUND_MINPLUS_H

#include <cstddef>

namespace heddle::solver {

/// Out[c] = min over r of Table[r * Columns + c] - Minus[r]; at least one row.
void minMinusRows(const double *table, const double *minus, size_t rows,
                  size_t columns, double *out);

/// Sum[i] += Add[i].
void addTo(double *sum, const double *add, size_t count);

/// The least of at least one.
double least(const double *values, size_t count);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_MINPLUS_H
