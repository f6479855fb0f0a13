//===- Ascent.h - Steering of prices and messages ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLAN_SOLVER_ASCENT_H
#define HEDDLE_LIB_PLAN_SOLVER_ASCENT_H

#include "Dual.h"
#include "Random.h"

#include <functional>

namespace heddle::solver {

/// Raises the bound of a model step by step: a few message passes, then a
/// step of the prices whose length adapts; goes back to the best state when
/// the steps turn out too long. When they have become short, prices are changed
/// at random for a while, and messages settle in between.
class Ascent {
public:
  Ascent(const Model &M, const TablePool &Tables, const DualState &From);

  /// Works until `Quota` table entries have been visited, and to the end of the
  /// step or trial that it is in by then: up to 200 passes more. `Target`: the
  /// best cost known, or a guess at it.
  void climb(double Target, double Quota, const std::function<bool()> &Stop);

  /// The best state so far.
  const Dual &best() const { return Best; }
  /// Its bound, less what rounding may have added to it.
  double bound() const { return BestBound; }
  double work() const { return Work; }
  /// The last guess at an assignment.
  const Labels &guess() const { return Current.guess(); }

private:
  void pass(int Count, const std::function<bool()> &Stop);
  void step(double Target, const std::function<bool()> &Stop);
  void changePrices();
  void tryPrices(double Target, const std::function<bool()> &Stop);

  Dual Current, Best;
  double BestBound;
  double PassWork;
  double Scale = 0.03;
  double Work = 0;
  int Passes; ///< Per step.
  int SinceBetter = 0;
  bool Trying = false;   ///< Steps along the guess's usage bring no more.
  bool Settling = false; ///< Of the trials, at the best prices.
  double Reach;          ///< Relative length of a trial step.
  Random Luck{1};
  int Warmup; ///< Passes before the first step of prices.
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_PLAN_SOLVER_ASCENT_H
