//===- Elimination.h - Exact optimum of a neighbourhood ---------*- C++ -*-===//
//
// Bucket elimination (Dechter, "Bucket Elimination: A Unifying Framework for
// Reasoning", AIJ 113, 1999) of the variables of a neighbourhood while all
// others keep their values: dynamic programming over a tree decomposition.
// If the tables would grow too large, variables are taken out of the
// neighbourhood instead (cutset conditioning).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_ELIMINATION_H
#define HEDDLE_LIB_SOLVER_BOUND_ELIMINATION_H

#include "Bound/EliminationOrder.h"
#include "Bound/TablePool.h"
#include "Reduce/Model.h"
#include "heddle/Support/Random.h"

namespace heddle::solver {

/// A model's costs, variable by variable.
class CostTables {
public:
  CostTables(const Model &m, const TablePool &pool);

  struct Neighbour {
    int32_t var;
    /// Row-major: the neighbour's value, then the own value.
    const double *table;
  };
  const Model &getModel() const { return m; }
  const std::vector<Neighbour> &getNeighbors(int32_t var) const {
    return adjacent[var];
  }
  const std::vector<double> &getUnary(int32_t var) const { return unary[var]; }
  /// The index of a variable's first value in a list over all values.
  size_t getOffset(int32_t var) const { return offsets[var]; }
  size_t valueCount() const { return offsets.back(); }

private:
  const Model &m;
  std::vector<std::vector<double>> unary;
  std::vector<std::vector<Neighbour>> adjacent;
  std::vector<size_t> offsets;
};

/// Plans and solves one neighbourhood after another; keeps its memory between
/// them. One per thread.
class Elimination {
public:
  explicit Elimination(const CostTables &tables);

  /// Chooses an elimination order for `candidates`. Takes some of them out of
  /// the neighbourhood, so that no table has more than `maxTable` entries and
  /// all tables together have at most `maxTotal`. `getMembers` then returns the
  /// remaining candidates in that order.
  void plan(const std::vector<int32_t> &candidates, double maxTable,
            double maxTotal, Random &r);
  const std::vector<int32_t> &getMembers() const { return order.vars; }
  const EliminationOrder &getOrder() const { return order; }
  /// Table entries that one `solve` visits: a measure of work.
  double getWork() const { return order.total; }

  /// Replaces the members' labels in `x` by the best ones. A value has an
  /// additional cost of `extra[getOffset(variable) + value]` (prices, noise).
  /// Returns the cost of the members, including their pairs with fixed
  /// variables.
  double solve(const std::vector<double> &extra, Labels &x);

  /// After `solve`: for every bucket and all labels of its separator, finds the
  /// least cost of all variables and pairs outside of the bucket's subtree.
  void passBack();
  /// Returns the cost found by `passBack` for the labels of the separator in
  /// `x`.
  double rest(size_t bucketIndex, const Labels &x) const;

private:
  struct Factor {
    const double *data = nullptr; ///< Null: the message of bucket `child`.
    int32_t child = -1;
    std::vector<size_t> strides; ///< By separator dimension.
  };
  struct Bucket {
    int32_t var = -1;
    std::vector<int32_t> separator; ///< Bucket positions, latest first.
    std::vector<Factor> factors;
    size_t offset = 0; ///< Of the message in `messages`.
    size_t size = 1;
  };
  void layOut();
  const double *dataOf(const Factor &f) const;
  void conditionalUnary(const double *extra, const Labels &x, const Bucket &b,
                        std::vector<double> &out) const;
  void computeMessage(const Bucket &b, const std::vector<double> &unary);
  /// Calls `visit(entry, offsets of the factors' rows)` for every label of the
  /// bucket's separator.
  template <typename Fn> void forEachEntry(const Bucket &b, const Fn &visit);

  const CostTables &tables;
  std::vector<int32_t> position; ///< Variable -> bucket, or -1.
  EliminationOrder order;
  std::vector<Bucket> buckets;
  std::vector<std::vector<double>> unaries;
  std::vector<double> messages;
  std::vector<double> rests; ///< By entry, like `messages`: see `rest`.
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_ELIMINATION_H
