//===- ParetoList.h - What a part can cost and use --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H
#define HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// One way to label the variables of a part.
struct ParetoEntry {
  Cost total;     ///< Of the part.
  double reduced; ///< Its reduced cost, at least 0.
  uint64_t trace; ///< How it came about; the owner's to interpret.
};

/// Entries with what they use in each of a number of dimensions.
class ParetoList {
public:
  explicit ParetoList(size_t dimensions = 0) : dimensions(dimensions) {}

  size_t size() const { return entries.size(); }
  const ParetoEntry &operator[](size_t i) const { return entries[i]; }
  ParetoEntry &operator[](size_t i) { return entries[i]; }
  const Usage *getUsage(size_t i) const { return used.data() + i * dimensions; }

  /// `amounts` has one per dimension.
  void add(const ParetoEntry &e, const Usage *amounts);
  void append(const ParetoList &other);

  /// Keeps the dimensions with these numbers, ascending.
  void project(const std::vector<int32_t> &kept);

  /// Removes every entry that another one beats or equals in cost and in every
  /// dimension; leaves the rest by ascending reduced cost. Returns the number
  /// of comparisons; after more than `maxComparisons` it leaves the list as it
  /// is.
  double removeDominated(double maxComparisons);

  /// What the entries take.
  size_t bytes() const {
    return size() * (sizeof(ParetoEntry) + dimensions * sizeof(Usage));
  }

private:
  void reorder(const std::vector<uint32_t> &kept);
  size_t dimensions;
  std::vector<ParetoEntry> entries;
  std::vector<Usage> used;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H
