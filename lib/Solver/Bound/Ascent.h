//===- Ascent.h - Steering of prices and messages ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_ASCENT_H
#define HEDDLE_LIB_SOLVER_BOUND_ASCENT_H

#include "Bound/Dual.h"
#include "heddle/Support/Random.h"

#include <functional>

namespace heddle::solver {

/// Raises the bound of a model step by step: a few message passes, then a
/// step of the prices whose length adapts; goes back to the best state when
/// the steps turn out too long. When they have become short, prices are changed
/// at random for a while, and messages settle in between.
class Ascent {
public:
  Ascent(const Model &m, const TablePool &tables, const DualState &from);

  /// Visits `quota` table entries more, less what the last call visited too
  /// many: to the end of a pass. `target`: the best cost known, or a guess at
  /// it.
  void climb(double target, double quota, const std::function<bool()> &stop);

  /// The same, but only until it is proven that nothing costs less than
  /// `target`, a whole number; whether it is.
  bool prove(double target, double quota, const std::function<bool()> &stop);

  /// Goes from the best state to lower prices and stays there for a while even
  /// if that does not raise the bound at once: messages that have settled at
  /// some prices make it fall at any others. For when it is known from
  /// elsewhere that prices are too high. Does nothing while the last such
  /// attempt lasts.
  void lowerPrices();

  /// The best state so far, as a pass has left it.
  const Dual &getBest() const { return best; }
  /// Its bound, less what rounding may have added to it.
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
  double scale = 0.03;
  double work = 0;
  double until = 0; ///< The value of `work` at which `climb` returns.
  int passes;       ///< Per step.
  int passesLeft;   ///< Until the end of the step or of a trial's part.
  int sinceBetter = 0;
  int warmup; ///< Passes before the first step of prices.

  bool trying = false;    ///< Steps along the guess's usage bring no more.
  bool settling = false;  ///< The trial keeps the best prices.
  bool lowering = false;  ///< `lowerPrices` is under way.
  double lowerBy;         ///< The factor by which it lowers prices.
  double reach;           ///< Relative length of a trial step.
  int partsLeft = 0;      ///< Until the end of the trial or the lowering.
  double boundBefore = 0; ///< Before the trial.
  double lastBound = 0;   ///< After its last part.
  Random luck{1};
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_ASCENT_H
