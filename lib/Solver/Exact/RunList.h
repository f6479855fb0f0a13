//===- RunList.h - What a part can cost and use at one time -----*- C++ -*-===//
//
// A Pareto list for a single limit. Where many parts are alike, a list is full
// of arithmetic progressions: at the price at which a layer is indifferent
// between two ways, n layers have n + 1 points that differ by the same step of
// usage and cost each. A run is such a progression; the sum of two runs is a
// run, so that lists do not grow with the number of layers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_EXACT_RUNLIST_H
#define HEDDLE_LIB_SOLVER_EXACT_RUNLIST_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// How a point of a run differs from the one before it.
struct RunStep {
  Usage More = 0; ///< 0: not known yet; all runs have one point.
  Cost Less = 0;
};

/// `Count` points; the first costs `Total` and uses `Used`. It is made of the
/// points `First ...` of trace `Trace`.
struct Run {
  Cost Total = 0;
  Usage Used = 0;
  uint32_t Count = 1;
  uint32_t First = 0;
  uint32_t Trace = 0;
  double Priced = 0; ///< The least `Total + price * Used` of its points.
};

using RunList = std::vector<Run>;

/// Removes the points that another one beats or equals in cost and usage, as
/// far as this costs little; all of them if no run is longer than one point.
/// Adds the number of comparisons to `Work` and goes no further once that
/// exceeds `MaxWork`.
void removeDominated(RunList &List, const RunStep &Step, double &Work,
                     double MaxWork);

/// How points of runs came about.
class RunTrace {
public:
  /// Nothing at all.
  RunTrace() { Nodes.emplace_back(); }

  /// One point: `Var` takes `Label`.
  uint32_t addLabel(int32_t Var, int32_t Label);
  /// The sums of the points of two runs.
  uint32_t addSum(const Run &A, const Run &B);
  /// The points of `A`, then those of `B`.
  uint32_t addJoin(const Run &A, const Run &B);
  size_t size() const { return Nodes.size(); }

  /// Sets the labels behind point `Index` of trace `Trace`.
  void label(uint32_t Trace, uint32_t Index, Labels &X) const;

private:
  enum class Kind : uint8_t { Nothing, Label, Sum, Join };
  struct Part {
    uint32_t Trace = 0, First = 0, Count = 1;
  };
  struct Node {
    Kind What = Kind::Nothing;
    Part A, B; ///< A label: `A.Trace` is the variable, `A.First` its label.
  };
  static Part partOf(const Run &R) { return {R.Trace, R.First, R.Count}; }
  std::vector<Node> Nodes;
};

/// Makes one run of those that continue each other.
void joinRuns(RunList &List, const RunStep &Step, RunTrace &Trace);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_RUNLIST_H
