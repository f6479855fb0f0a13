//===- Elimination.h - Exact optimum of a neighbourhood ---------*- C++ -*-===//
//
// Bucket elimination (Dechter, "Bucket Elimination: A Unifying Framework for
// Reasoning", AIJ 113, 1999) of the variables of a neighbourhood while all
// others keep their values: dynamic programming over a tree decomposition.
// Where the tables would grow too large, variables are taken out of the
// neighbourhood instead (cutset conditioning).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_ELIMINATION_H
#define HEDDLE_LIB_SOLVER_BOUND_ELIMINATION_H

#include "Bound/TablePool.h"
#include "Reduce/Model.h"
#include "heddle/Support/Random.h"

namespace heddle::solver {

/// A model's costs, variable by variable.
class CostTables {
public:
  CostTables(const Model &M, const TablePool &Pool);

  struct Neighbour {
    int32_t Var;
    /// Row-major: the neighbour's value, then the own value.
    const double *Table;
  };
  const Model &model() const { return M; }
  const std::vector<Neighbour> &neighbours(int32_t Var) const {
    return Adjacent[Var];
  }
  const std::vector<double> &unary(int32_t Var) const { return Unary[Var]; }
  /// Where a variable's values start in a list over all values.
  size_t offset(int32_t Var) const { return Offsets[Var]; }
  size_t valueCount() const { return Offsets.back(); }

private:
  const Model &M;
  std::vector<std::vector<double>> Unary;
  std::vector<std::vector<Neighbour>> Adjacent;
  std::vector<size_t> Offsets;
};

/// Plans and solves one neighbourhood after another; keeps its memory between
/// them. One per thread.
class Elimination {
public:
  explicit Elimination(const CostTables &Tables);

  /// Chooses an elimination order for `Candidates`. Afterwards `members` holds
  /// those that are free, in that order; the rest was taken out so that no
  /// table has more than `MaxTable` entries and all together no more than
  /// `MaxTotal`.
  void plan(const std::vector<int32_t> &Candidates, double MaxTable,
            double MaxTotal, Random &R);
  const std::vector<int32_t> &members() const { return Order; }
  /// Table entries that one `solve` visits: a measure of work.
  double work() const { return Total; }

  /// Replaces the members' labels in `X` by the best ones, where a value
  /// costs its `Extra[offset(variable) + value]` (prices, noise) besides.
  /// Returns what the members cost together, pairs with fixed ones included.
  double solve(const std::vector<double> &Extra, Labels &X);

  /// After `solve`: finds for every bucket and every label of its separator
  /// the least cost of everything that is not below it.
  void passBack();
  double rest(size_t BucketIndex, const Labels &X) const {
    return restAt(BucketIndex, entryOf(BucketIndex, X));
  }

  /// Labels of a bucket's separator have a number, its entry.
  size_t entryCount(size_t BucketIndex) const {
    return Buckets[BucketIndex].Size;
  }
  size_t entryOf(size_t BucketIndex, const Labels &X) const;
  /// The labels of an entry.
  void setLabels(size_t BucketIndex, size_t Entry, Labels &X) const;
  /// The least cost of what is below a bucket, and of what is not.
  double leastAt(size_t BucketIndex, size_t Entry) const {
    return Messages[Buckets[BucketIndex].Offset + Entry];
  }
  double restAt(size_t BucketIndex, size_t Entry) const {
    return Rests[indexOf(BucketIndex, Entry)];
  }
  /// Where the tables have an entry of a bucket.
  size_t indexOf(size_t BucketIndex, size_t Entry) const {
    return Buckets[BucketIndex].Offset + Entry;
  }
  /// Where a variable is in `members`, or -1.
  int32_t position(int32_t Var) const { return Position[Var]; }
  /// The bucket that a bucket's entries go to; -1: it is the last one of its
  /// component.
  int32_t parent(size_t BucketIndex) const {
    const Bucket &B = Buckets[BucketIndex];
    return B.Separator.empty() ? -1 : B.Separator.back();
  }

private:
  struct Factor {
    const double *Data = nullptr; ///< Null: the message of bucket `Child`.
    int32_t Child = -1;
    std::vector<size_t> Strides; ///< By separator dimension.
  };
  struct Bucket {
    int32_t Var = -1;
    std::vector<int32_t> Separator; ///< Bucket positions, latest first.
    std::vector<Factor> Factors;
    size_t Offset = 0; ///< Of the message in `Messages`.
    size_t Size = 1;
  };
  void layOut(const std::vector<std::vector<int32_t>> &Separators);
  const double *dataOf(const Factor &F) const;
  void conditionalUnary(const double *Extra, const Labels &X, const Bucket &B,
                        std::vector<double> &Out) const;
  void computeMessage(const Bucket &B, const std::vector<double> &Unary);
  /// Calls `Visit(entry, offsets of the factors' rows)` for every label of the
  /// bucket's separator.
  template <typename Fn> void forEachEntry(const Bucket &B, const Fn &Visit);

  const CostTables &Tables;
  std::vector<int32_t> Position; ///< Variable -> bucket, or -1.
  std::vector<int32_t> Order;
  std::vector<Bucket> Buckets;
  std::vector<std::vector<double>> Unaries;
  std::vector<double> Messages;
  std::vector<double> Rests; ///< As `Messages`.
  double Total = 0;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_ELIMINATION_H
