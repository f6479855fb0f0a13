//===- Buckets.h - The tree that the exact search works on ------*- C++ -*-===//
//
// The buckets of an elimination of all variables, and the times at which what
// lies below a bucket uses memory. They depend on the model alone.
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
  int32_t var = -1; ///< -1: only joins its children.
  /// The variables above the bucket that have a pair with one below it.
  std::vector<int32_t> separator;
  std::vector<int32_t> children;
  std::vector<int32_t> breaks; ///< Times at which usage below may change.
  /// The intervals between breaks, and the least capacity in each. The
  /// variables below use the same amount throughout an interval.
  std::vector<Interval> full;
  std::vector<Usage> room;
  /// The parts of `full` at which variables elsewhere have a load, too, and the
  /// interval of `full` that each is in.
  std::vector<Interval> open;
  std::vector<int32_t> openInFull;
  /// For each child, the interval of its `open` that each of `full` lies in, or
  /// -1.
  std::vector<std::vector<int32_t>> fullInChild;
  /// What the search finds, by the labels of the separator.
  std::map<uint64_t, ParetoList> lists;
};

/// Sets `buckets` to those of all variables, children before their parents and
/// the root last, in the order of `tree` if it is given. Returns false if an
/// exact search is out of reach: a separator has too many labels, or there are
/// too many pairs of a bucket and a time.
bool layOutBuckets(const Model &m, const TreeBound *tree,
                   std::vector<Bucket> &buckets);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_EXACT_BUCKETS_H
