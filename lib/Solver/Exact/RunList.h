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
  Usage more = 0; ///< 0: not known yet; all runs have one point.
  Cost less = 0;
};

/// `count` points; the first costs `total` and uses `used`. It is made of the
/// points `first ...` of trace `trace`.
struct Run {
  Cost total = 0;
  Usage used = 0;
  uint32_t count = 1;
  uint32_t first = 0;
  uint32_t trace = 0;
  double priced = 0; ///< The least `total + price * used` of its points.
};

using RunList = std::vector<Run>;

/// Removes the points that another one beats or equals in cost and usage, as
/// far as this costs little; all of them if no run is longer than one point.
/// Adds the number of comparisons to `work` and goes no further once that
/// exceeds `maxWork`.
void removeDominated(RunList &list, const RunStep &step, double &work,
                     double maxWork);

/// How points of runs came about.
class RunTrace {
public:
  /// Nothing at all.
  RunTrace() { nodes.emplace_back(); }

  /// One point: `var` takes `label`.
  uint32_t addLabel(int32_t var, int32_t label);
  /// The sums of the points of two runs.
  uint32_t addSum(const Run &a, const Run &b);
  /// The points of `a`, then those of `b`.
  uint32_t addJoin(const Run &a, const Run &b);
  size_t size() const { return nodes.size(); }

  /// Sets the labels behind point `index` of trace `trace`.
  void label(uint32_t trace, uint32_t index, Labels &x) const;

private:
  enum class Kind : uint8_t { Nothing, Label, Sum, Join };
  struct Part {
    uint32_t trace = 0, first = 0, count = 1;
  };
  struct Node {
    Kind what = Kind::Nothing;
    Part a, b; ///< A label: `a.trace` is the variable, `a.first` its label.
  };
  static Part partOf(const Run &r) { return {r.trace, r.first, r.count}; }
  std::vector<Node> nodes;
};

/// Makes one run of those that continue each other.
void joinRuns(RunList &list, const RunStep &step, RunTrace &trace);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_RUNLIST_H
