//===- ParetoList.h - What a part can cost and use --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H
#define HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H

#include "Reduce/Model.h"

namespace heddle::solver {

/// One way to label the variables of a part.
struct ParetoEntry {
  Cost Total;     ///< Of the part.
  double Reduced; ///< Its reduced cost, at least 0.
  uint64_t Trace; ///< How it came about; the owner's to interpret.
};

/// Entries with what they use in each of a number of dimensions.
class ParetoList {
public:
  explicit ParetoList(size_t Dimensions = 0) : Dimensions(Dimensions) {}

  size_t size() const { return Entries.size(); }
  const ParetoEntry &operator[](size_t I) const { return Entries[I]; }
  ParetoEntry &operator[](size_t I) { return Entries[I]; }
  const Usage *usage(size_t I) const { return Used.data() + I * Dimensions; }

  /// `Amounts` has one per dimension.
  void add(const ParetoEntry &E, const Usage *Amounts);
  void append(const ParetoList &Other);

  /// Keeps the dimensions with these numbers, ascending.
  void project(const std::vector<int32_t> &Kept);

  /// Removes every entry that another one beats or equals in cost and in every
  /// dimension; leaves the rest by ascending reduced cost. Returns the number
  /// of comparisons; after more than `MaxComparisons` it leaves the list as it
  /// is.
  double removeDominated(double MaxComparisons);

  /// What the entries take.
  size_t bytes() const {
    return size() * (sizeof(ParetoEntry) + Dimensions * sizeof(Usage));
  }

private:
  void reorder(const std::vector<uint32_t> &Kept);
  size_t Dimensions;
  std::vector<ParetoEntry> Entries;
  std::vector<Usage> Used;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_PARETOLIST_H
