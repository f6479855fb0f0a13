//===- Model.h - A problem in reduced form ----------------------*- C++ -*-===//
//
// The problem that the searches solve: variables with values, unary and
// pairwise costs, and the memory that each value uses at a short list of times.
// The list has only the times at which the memory limit can exclude an
// assignment. Presolve.h makes models from problems.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_REDUCE_MODEL_H
#define HEDDLE_LIB_SOLVER_REDUCE_MODEL_H

#include "heddle/Solver/Problem.h"

#include <utility>
#include <vector>

namespace heddle::solver {

/// The memory that a variable uses at the times `begin <= t < end`: `amount[v]`
/// if the variable takes value v.
struct Load {
  int32_t begin = 0;
  int32_t end = 0;
  std::vector<Usage> amount;
};

struct Variable {
  std::vector<Cost> unary;    ///< By value.
  std::vector<Load> loads;    ///< Disjoint and ascending.
  std::vector<int32_t> pairs; ///< The numbers of the variable's pairs.
  int32_t size() const { return static_cast<int32_t>(unary.size()); }
};

/// A cost that two different variables have together. At most one pair joins
/// two variables.
struct Pair {
  int32_t a = -1;
  int32_t b = -1;
  std::vector<Cost> table; ///< Row-major: the value of `a`, then that of `b`.
  int32_t other(int32_t var) const { return var == a ? b : a; }
};

struct Model {
  std::vector<Variable> vars;
  std::vector<Pair> pairs;
  std::vector<Usage> capacity; ///< By time; if negative, infeasible.
  Cost constant = 0;           ///< Part of every assignment's cost.
};

/// A view of a pair from one of its two variables: `(own, theirs)`.
class PairView {
public:
  PairView(const Model &m, const Pair &p, int32_t var)
      : data(p.table.data()), ownStride(var == p.a ? m.vars[p.b].size() : 1),
        theirStride(var == p.a ? 1 : m.vars[p.b].size()) {}
  Cost operator()(int32_t own, int32_t theirs) const {
    return data[static_cast<size_t>(own) * ownStride +
                static_cast<size_t>(theirs) * theirStride];
  }

private:
  const Cost *data;
  size_t ownStride, theirStride;
};

/// The numbers that the parts of a model have in the problem that it was
/// reduced from. They tell which parts of two models are the same.
struct ModelNames {
  std::vector<int32_t> vars;
  std::vector<std::vector<int32_t>> values; ///< By variable, then value.
  std::vector<int32_t> times;               ///< Ascending.
};

/// The value of every variable of a model.
using Labels = std::vector<int32_t>;

/// The cost of `x`, constant included, saturating at `kInfiniteCost`.
Cost costOf(const Model &m, const Labels &x);

/// The usage of `x` at every time.
std::vector<Usage> usageOf(const Model &m, const Labels &x);

/// Whether usage stays within capacity at every time.
bool withinCapacity(const Model &m, const std::vector<Usage> &used);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_REDUCE_MODEL_H
