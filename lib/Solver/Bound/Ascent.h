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
  Ascent(const Model &M, const TablePool &Tables, const DualState &From);

  /// Visits `Quota` table entries more, less what the last call visited too
  /// many: to the end of a pass. `Target`: the best cost known, or a guess at
  /// it.
  void climb(double Target, double Quota, const std::function<bool()> &Stop);

  /// The same, but only until it is proven that nothing costs less than
  /// `Target`, a whole number; whether it is.
  bool prove(double Target, double Quota, const std::function<bool()> &Stop);

  /// Goes from the best state to lower prices and stays there for a while even
  /// if that does not raise the bound at once: messages that have settled at
  /// some prices make it fall at any others. For when it is known from
  /// elsewhere that prices are too high. Does nothing while the last such
  /// attempt lasts.
  void lowerPrices();

  /// The best state so far, as a pass has left it.
  const Dual &best() const { return Best; }
  /// Its bound, less what rounding may have added to it.
  double bound() const { return BestBound; }
  double work() const { return Work; }
  /// What one pass adds to it.
  double passWork() const { return PassWork; }
  /// The last guess at an assignment.
  const Labels &guess() const { return Current.guess(); }

private:
  void pass();
  bool keepIfBetter();
  void endStep(double Target);
  void changePrices();
  void beginTrial();
  void endPartOfLowering();
  void endPartOfTrial(double Target);

  Dual Current, Best;
  double BestBound;
  double PassWork;
  double Scale = 0.03;
  double Work = 0;
  double Until = 0; ///< Of `Work`.
  int Passes;       ///< Per step.
  int PassesLeft;   ///< Of the step, or of a part of what is tried.
  int SinceBetter = 0;
  int Warmup; ///< Passes before the first step of prices.

  bool Trying = false;   ///< Steps along the guess's usage bring no more.
  bool Settling = false; ///< Of the trials, at the best prices.
  bool Lowering = false; ///< Prices, as asked to.
  double LowerBy;        ///< Times this.
  double Reach;          ///< Relative length of a trial step.
  int PartsLeft = 0;     ///< Of the trial, or of what `lowerPrices` began.
  double BoundBefore = 0, LastBound = 0; ///< The trial, and its last part.
  Random Luck{1};
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_ASCENT_H
