//===- TablePool.h - Pair tables for fast loops -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_TABLEPOOL_H
#define HEDDLE_LIB_SOLVER_BOUND_TABLEPOOL_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// The tables of a model's pairs as floating-point numbers, in both
/// orientations. Equal tables are stored once. As models repeat their layers,
/// this saves much memory, and loops over tables in the cache are several times
/// faster. Infinite costs become a finite cost larger than that of any finite
/// assignment. So assignments compare by their number of infinite entries
/// first, then by cost.
class TablePool {
public:
  explicit TablePool(const Model &m);

  /// The table of a pair, row-major: rows are the values of Pair::a, columns
  /// those of Pair::b.
  const double *getTable(size_t pairId) const {
    return data.data() + plain[pairId];
  }
  /// The transposed table: rows are the values of Pair::b, columns those of
  /// Pair::a.
  const double *getTransposed(size_t pairId) const {
    return data.data() + transposed[pairId];
  }
  /// The finite cost that stands for an infinite one.
  double getForbidden() const { return forbidden; }
  double convert(Cost c) const {
    return c < kInfiniteCost ? static_cast<double>(c) : forbidden;
  }

private:
  double forbidden;
  std::vector<double> data;
  std::vector<size_t> plain, transposed;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_TABLEPOOL_H
