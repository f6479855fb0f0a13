//===- DualState.h - What a bound has learnt --------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLAN_SOLVER_DUALSTATE_H
#define HEDDLE_LIB_PLAN_SOLVER_DUALSTATE_H

#include "Model.h"

namespace heddle::solver {

/// Prices and messages of a model (Dual.h). Any prices >= 0 and any messages
/// give a bound; those of a similar model give a good one at once.
struct DualState {
  std::vector<double> Prices; ///< By time; empty: none.
  /// By pair: what it has handed to the values of `A`, then to those of `B`.
  std::vector<std::vector<double>> Messages; ///< Empty: none.
};

/// What the parts of a model are called in the problem that it was reduced
/// from: two models of it can be compared by these.
struct ModelNames {
  std::vector<int32_t> Vars;
  std::vector<std::vector<int32_t>> Values; ///< By variable, then value.
  std::vector<int32_t> Times;               ///< Ascending.
};

/// Carries what is known of a model over to a later, more reduced one. A price
/// whose time is gone goes to the next one.
DualState carryOver(const DualState &State, const Model &From,
                    const ModelNames &FromNames, const Model &To,
                    const ModelNames &ToNames);

} // namespace heddle::solver

#endif // HEDDLE_LIB_PLAN_SOLVER_DUALSTATE_H
