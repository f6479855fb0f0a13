//===- TablePool.h - Pair tables for fast loops -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_TABLEPOOL_H
#define HEDDLE_LIB_SOLVER_BOUND_TABLEPOOL_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// The tables of a model's pairs as floating-point numbers, in both
/// orientations, equal ones stored once: models repeat their layers, and what
/// stays in the cache is several times faster. Infinite costs become a finite
/// one that outweighs every finite assignment, so that assignments compare by
/// how many entries they violate, then by cost.
class TablePool {
public:
  explicit TablePool(const Model &m);

  /// Row-major: the value of `a`, then that of `b`.
  const double *getTable(size_t pairId) const {
    return data.data() + plain[pairId];
  }
  /// Row-major: the value of `b`, then that of `a`.
  const double *getTransposed(size_t pairId) const {
    return data.data() + transposed[pairId];
  }
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
