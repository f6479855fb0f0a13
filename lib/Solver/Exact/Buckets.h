//===- Buckets.h - The tree that the exact search works on ------*- C++ -*-===//
//
// Lays out the buckets of an elimination of all variables, and the times at
// which the variables below each bucket use memory. Both depend only on the
// model and the order of elimination.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_EXACT_BUCKETS_H
#define HEDDLE_LIB_SOLVER_EXACT_BUCKETS_H

#include "Bound/TreeBound.h"
#include "Exact/ParetoList.h"

#include <map>

namespace heddle::solver {

/// The elimination of one variable. Below a bucket are its own variable and the
/// variables below its children.
struct Bucket {
  int32_t var = -1; ///< -1: the bucket only joins its children.
  /// The variables above the bucket that have a pair with one below it.
  std::vector<int32_t> separator;
  std::vector<int32_t> children;
  std::vector<int32_t> breaks; ///< Times at which usage below may change.
  /// The intervals between `breaks`, and the least capacity in each. Within an
  /// interval no load below the bucket changes.
  std::vector<Interval> full;
  std::vector<Usage> room;
  /// The parts of `full` at which variables elsewhere have loads, too, and for
  /// each part the index of its interval in `full`.
  std::vector<Interval> open;
  std::vector<int32_t> openInFull;
  /// By child and interval of `full`: the index in the child's `open`, or -1.
  std::vector<std::vector<int32_t>> fullInChild;
  /// The lists that the search finds, by the labels of the separator.
  std::map<uint64_t, ParetoList> lists;
};

/// Sets `buckets` to the buckets of all variables: children before their
/// parents, the root last. If `tree` is given, eliminates in its order. Returns
/// false if an exact search is out of reach: a separator has too many choices
/// of labels, or there are too many pairs of a bucket and a time.
bool layOutBuckets(const Model &m, const TreeBound *tree,
                   std::vector<Bucket> &buckets);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_BUCKETS_H
