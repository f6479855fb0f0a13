//===- Model.h - A problem in reduced form ----------------------*- C++ -*-===//
//
// What the searches work on: variables with values, costs of one and of two
// variables, and loads on a short list of times that can really bind. Made
// from a Problem by Presolve.h.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_REDUCE_MODEL_H
#define HEDDLE_LIB_SOLVER_REDUCE_MODEL_H

#include "heddle/Solver/Problem.h"

#include <utility>
#include <vector>

namespace heddle::solver {

/// What a variable uses at the times `Begin <= t < End` of a model, by value.
struct Load {
  int32_t Begin = 0;
  int32_t End = 0;
  std::vector<Usage> Amount;
};

struct Variable {
  std::vector<Cost> Unary;    ///< By value.
  std::vector<Load> Loads;    ///< Disjoint and ascending.
  std::vector<int32_t> Pairs; ///< The pairs that it takes part in.
  int32_t size() const { return static_cast<int32_t>(Unary.size()); }
};

/// A cost that two different variables have together. At most one pair joins
/// two variables.
struct Pair {
  int32_t A = -1;
  int32_t B = -1;
  std::vector<Cost> Table; ///< Row-major: the value of `A`, then that of `B`.
  int32_t other(int32_t Var) const { return Var == A ? B : A; }
};

struct Model {
  std::vector<Variable> Vars;
  std::vector<Pair> Pairs;
  std::vector<Usage> Capacity; ///< By time; may be negative: infeasible.
  Cost Constant = 0;           ///< Part of every assignment's cost.
};

/// A view of a pair from one of its two variables: `(Own, Theirs)`.
class PairView {
public:
  PairView(const Model &M, const Pair &P, int32_t Var)
      : Data(P.Table.data()), OwnStride(Var == P.A ? M.Vars[P.B].size() : 1),
        TheirStride(Var == P.A ? 1 : M.Vars[P.B].size()) {}
  Cost operator()(int32_t Own, int32_t Theirs) const {
    return Data[static_cast<size_t>(Own) * OwnStride +
                static_cast<size_t>(Theirs) * TheirStride];
  }

private:
  const Cost *Data;
  size_t OwnStride, TheirStride;
};

/// What the parts of a model are called in the problem that it was reduced
/// from: two models of it can be compared by these.
struct ModelNames {
  std::vector<int32_t> Vars;
  std::vector<std::vector<int32_t>> Values; ///< By variable, then value.
  std::vector<int32_t> Times;               ///< Ascending.
};

/// The value of every variable of a model.
using Labels = std::vector<int32_t>;

/// The cost of `X`, constant included, saturating at `InfiniteCost`.
Cost costOf(const Model &M, const Labels &X);

/// The usage at every time.
std::vector<Usage> usageOf(const Model &M, const Labels &X);

/// Whether usage stays within capacity at every time.
bool withinCapacity(const Model &M, const std::vector<Usage> &Used);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_REDUCE_MODEL_H
