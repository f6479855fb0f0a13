//===- ParetoList.h - The costs and usages that a part can have -*- C++ -*-===//
//
// A part is a set of variables. An entry of its list is a point: the cost and
// usage of one way to label them. If many parts are alike and a single time
// binds, lists are full of arithmetic progressions. For example, let a layer
// cost 8 and use 1 in one way, and cost 5 and use 2 in another. Then 3 layers
// have the points (24, 3), (21, 4), (18, 5) and (15, 6). So an entry can be a
// run of points, too. The sum of two runs with the same step is a run, so lists
// do not grow with the number of layers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H
#define HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// The difference between one point of a run and the next. The usage of the
/// next point is larger by `more`, and its cost is smaller by `less`.
struct RunStep {
  Usage more = 0; ///< 0: not known yet; every entry is a single point.
  Cost less = 0;
};

/// A point, or a run of `count` points.
struct ParetoEntry {
  Cost total = 0;     ///< The cost of the first point.
  double reduced = 0; ///< The least reduced cost of the points, at least 0.
  /// The labels behind the points: those of the points `first`, `first + 1` ...
  /// of this trace (PartTrace).
  uint64_t trace = 0;
  uint32_t count = 1;
  uint32_t first = 0;
};

/// Remembers the labels behind the points of entries. A trace stands for a list
/// of points: a label, the sum of two runs, or one run after another.
class PartTrace {
public:
  /// Trace 0: a point without labels.
  PartTrace() { nodes.emplace_back(); }

  /// Adds a trace of one point, at which `var` takes `label`.
  uint64_t addLabel(int32_t var, int32_t label);
  /// Adds a trace of the sums of the points of two runs.
  uint64_t addSum(const ParetoEntry &a, const ParetoEntry &b) {
    return add(Kind::Sum, a, b);
  }
  /// Adds a trace of the points of `a`, then those of `b`.
  uint64_t addJoin(const ParetoEntry &a, const ParetoEntry &b) {
    return add(Kind::Join, a, b);
  }
  size_t bytes() const { return nodes.size() * sizeof(Node); }

  /// Sets in `x` the labels behind the first point of an entry.
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

/// Entries, and their usage in each of a number of dimensions (open times).
/// Runs of several points occur only in lists of one dimension. The usage of a
/// run is that of its first point.
class ParetoList {
public:
  explicit ParetoList(size_t dimensions = 0) : dimensions(dimensions) {}

  size_t size() const { return entries.size(); }
  size_t getDimensions() const { return dimensions; }
  const ParetoEntry &operator[](size_t i) const { return entries[i]; }
  ParetoEntry &operator[](size_t i) { return entries[i]; }
  const Usage *getUsage(size_t i) const { return used.data() + i * dimensions; }

  /// Adds an entry. `amounts` has the usage in each dimension.
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

  /// Keeps the dimensions with these numbers, ascending. If none is left, every
  /// run becomes its last point, which costs least.
  void project(const std::vector<int32_t> &kept, const RunStep &step);

  /// Removes the points that are dominated: another point is no worse in cost
  /// and in every dimension. Returns the number of comparisons. After more than
  /// `maxComparisons`, some dominated points may stay.
  double removeDominated(const RunStep &step, double maxComparisons);

  void sortByReduced();

  /// Finds a step that is not known yet: the smallest one between two points
  /// that cost the same at `price`. Other such points may be several steps
  /// apart. The list must ascend in reduced cost.
  void findStep(double price, RunStep &step) const;

  /// Joins runs that continue each other. The list must have one dimension.
  void joinRuns(const RunStep &step, PartTrace &trace);

  /// Keeps of entries with similar usage the one of least reduced cost: at most
  /// `count + 1` entries. The list must have one dimension and ascend in
  /// reduced cost.
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
