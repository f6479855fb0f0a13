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
  explicit TablePool(const Model &M);

  /// Row-major: the value of `A`, then that of `B`.
  const double *table(size_t PairId) const {
    return Data.data() + Plain[PairId];
  }
  /// Row-major: the value of `B`, then that of `A`.
  const double *transposed(size_t PairId) const {
    return Data.data() + Transposed[PairId];
  }
  double forbidden() const { return Forbidden; }
  double convert(Cost C) const {
    return C < InfiniteCost ? static_cast<double>(C) : Forbidden;
  }

private:
  double Forbidden;
  std::vector<double> Data;
  std::vector<size_t> Plain, Transposed;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_TABLEPOOL_H
