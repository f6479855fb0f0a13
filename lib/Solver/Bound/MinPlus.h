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
void minMinusRows(const double *Table, const double *Minus, size_t Rows,
                  size_t Columns, double *Out);

/// Sum[i] += Add[i].
void addTo(double *Sum, const double *Add, size_t Count);

/// The least of at least one.
double least(const double *Values, size_t Count);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_MINPLUS_H
