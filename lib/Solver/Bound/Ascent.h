//===- Ascent.h - Steering of prices and messages ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_ASCENT_H
#define HEDDLE_LIB_SOLVER_BOUND_ASCENT_H

#include "Bound/Dual.h"
#include "heddle/Support/Random.h"

#include <functional>

namespace heddle::solver {

/// Raises the bound of a model (Dual.h) in steps. A step is a few message
/// passes, then a change of the prices whose length adapts. If steps turn out
/// too long, the ascent goes back to the best state. When steps have become
/// short, it makes trials: passes at the best prices and at random changes of
/// them, in turn. A trial is cut into parts of a fixed number of passes.
class Ascent {
public:
  Ascent(const Model &m, const TablePool &tables, const DualState &from);

  /// Visits `quota` more table entries, rounded up to whole passes; the next
  /// call visits correspondingly fewer. `target` is the best cost known, or an
  /// estimate of it.
  void climb(double target, double quota, const std::function<bool()> &stop);

  /// Like `climb`, but stops as soon as it is proven that no assignment costs
  /// less than `target`, a whole number. Returns whether that is proven.
  bool prove(double target, double quota, const std::function<bool()> &stop);

  /// Lowers the prices of the best state and keeps them low for a while, even
  /// if the bound falls at first: messages that have settled at some prices
  /// make it fall at any others. Call it if there are other signs that prices
  /// are too high. Does nothing while an earlier lowering is under way.
  void lowerPrices();

  /// The state with the best bound so far, as it was after a pass.
  const Dual &getBest() const { return best; }
  /// The best state's bound, less what rounding may have added to it.
  double getBound() const { return bestBound; }
  double getWork() const { return work; }
  /// The work of one pass.
  double getPassWork() const { return passWork; }
  /// The last guess at an assignment.
  const Labels &getGuess() const { return current.getGuess(); }

private:
  void pass();
  bool keepIfBetter();
  void endStep(double target);
  void changePrices();
  void beginTrial();
  void endPartOfLowering();
  void endPartOfTrial(double target);

  Dual current, best;
  double bestBound;
  double passWork;
  double scale = 0.03; ///< The relative length of a step.
  double work = 0;     ///< Table entries visited.
  double until = 0;    ///< The value of `work` at which `climb` returns.
  int passes;          ///< Per step.
  int passesLeft;      ///< Until the end of the step or of a trial's part.
  int sinceBetter = 0; ///< Steps since the bound rose notably.
  int warmup;          ///< Passes before the first change of prices.

  bool trying = false;    ///< Steps have become short: a trial is under way.
  bool settling = false;  ///< The trial keeps the best prices.
  bool lowering = false;  ///< `lowerPrices` is under way.
  double lowerBy;         ///< The factor by which `lowerPrices` lowers prices.
  double reach;           ///< The relative change of prices in a trial.
  int partsLeft = 0;      ///< Until the end of the trial or the lowering.
  double boundBefore = 0; ///< The best bound before the trial or the lowering.
  double lastBound = 0;   ///< The bound after the trial's last part.
  Random luck{1};
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_ASCENT_H
