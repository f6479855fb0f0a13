//===- ParetoList.h - The costs and usages that a part can have -*- C++ -*-===//
//
// Where many parts are alike and a single time binds, a list is full of
// arithmetic progressions: at the price at which a layer is indifferent between
// two values, n layers have n + 1 points that differ by the same step of usage
// and cost each. An entry can therefore be a run of points. The sum of two runs
// is a run, so lists do not grow with the number of layers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H
#define HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// The difference between one point of a run and the next.
struct RunStep {
  Usage more = 0; ///< 0: not known yet; every entry is a single point.
  Cost less = 0;
};

/// A way to label the variables of a part, or a run of `count` ways.
struct ParetoEntry {
  Cost total = 0;     ///< Of the first point.
  double reduced = 0; ///< The least reduced cost of its points, at least 0.
  uint64_t trace = 0; ///< The points `first ...` of this trace are its own.
  uint32_t count = 1;
  uint32_t first = 0;
};

/// The labels behind the points of entries.
class PartTrace {
public:
  /// Trace 0: a point without labels.
  PartTrace() { nodes.emplace_back(); }

  /// One point: `var` takes `label`.
  uint64_t addLabel(int32_t var, int32_t label);
  /// The sums of the points of two runs.
  uint64_t addSum(const ParetoEntry &a, const ParetoEntry &b) {
    return add(Kind::Sum, a, b);
  }
  /// The points of `a`, then those of `b`.
  uint64_t addJoin(const ParetoEntry &a, const ParetoEntry &b) {
    return add(Kind::Join, a, b);
  }
  size_t bytes() const { return nodes.size() * sizeof(Node); }

  /// Sets the labels behind the first point of an entry.
  void label(const ParetoEntry &entry, Labels &x) const;

private:
  enum class Kind : uint8_t { Nothing, Label, Sum, Join };
  struct Part {
    uint32_t trace = 0, first = 0, count = 1;
  };
  struct Node {
    Kind kind = Kind::Nothing;
    Part a, b; ///< A label: `a.trace` is the variable, `a.first` its label.
  };
  uint64_t add(Kind kind, const ParetoEntry &a, const ParetoEntry &b);
  std::vector<Node> nodes;
};

/// Entries, and their usage in each of a number of dimensions. Runs of several
/// points occur in lists of one dimension only; their usage is that of the
/// first point.
class ParetoList {
public:
  explicit ParetoList(size_t dimensions = 0) : dimensions(dimensions) {}

  size_t size() const { return entries.size(); }
  size_t getDimensions() const { return dimensions; }
  const ParetoEntry &operator[](size_t i) const { return entries[i]; }
  ParetoEntry &operator[](size_t i) { return entries[i]; }
  const Usage *getUsage(size_t i) const { return used.data() + i * dimensions; }

  /// `amounts` has one per dimension.
  void add(const ParetoEntry &e, const Usage *amounts) {
    entries.push_back(e);
    if (dimensions == 1) // by far the most frequent number
      used.push_back(*amounts);
    else
      used.insert(used.end(), amounts, amounts + dimensions);
  }
  void reserve(size_t count) {
    entries.reserve(count);
    used.reserve(count * dimensions);
  }
  void append(ParetoList other);

  /// Keeps the dimensions with these numbers, ascending. Where none is left, a
  /// run becomes its last point, which costs least.
  void project(const std::vector<int32_t> &kept, const RunStep &step);

  /// Removes the points that another one beats or equals in cost and in every
  /// dimension. Returns the number of comparisons; after more than
  /// `maxComparisons` some points stay that could go.
  double removeDominated(const RunStep &step, double maxComparisons);

  void sortByReduced();

  /// Sets a step that is not known yet: the smallest one between two points
  /// whose costs are equal at `price`. Others may be several steps apart. The
  /// list ascends in reduced cost.
  void findStep(double price, RunStep &step) const;

  /// Joins runs that continue each other. The list has one dimension.
  void joinRuns(const RunStep &step, PartTrace &trace);

  /// Keeps the cheapest of those that use similarly much, at most `count + 1`.
  /// The list has one dimension and ascends in reduced cost.
  void thinOut(size_t count);

  size_t bytes() const {
    return size() * (sizeof(ParetoEntry) + dimensions * sizeof(Usage));
  }

private:
  struct GridRun;
  std::vector<GridRun> runsOnGrid(const RunStep &step) const;
  double subtractDominated(const RunStep &step, double maxComparisons);
  template <typename Numbers> void keep(const Numbers &numbers);
  size_t dimensions;
  std::vector<ParetoEntry> entries;
  std::vector<Usage> used;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H
