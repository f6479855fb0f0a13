//===- TreeBound.h - The exact bound of narrow models -----------*- C++ -*-===//
//
// If the tables of an elimination of all variables fit into memory, the
// Lagrangian relaxation can be solved exactly for any prices: no cycle loosens
// the bound. The same tables, passed back from the root, give for any labels of
// a separator the least cost of the model outside of the separator's subtree.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_BOUND_TREEBOUND_H
#define HEDDLE_LIB_SOLVER_BOUND_TREEBOUND_H

#include "Bound/Dual.h"
#include "Bound/Elimination.h"

#include <functional>
#include <optional>

namespace heddle::solver {

class TreeBound {
public:
  /// Usable if the elimination of all variables visits at most `maxEntries`
  /// table entries.
  TreeBound(const CostTables &tables, const TablePool &pool, double maxEntries);
  bool isUsable() const { return usable; }

  /// Searches for the best prices, starting from `prices`.
  void climb(const std::vector<double> &prices, double target,
             const std::function<bool()> &stop);

  double getBound() const {
    return best;
  } ///< Less what rounding may have added.
  const std::vector<double> &getPrices() const { return bestPrices; }
  const Labels &getLabels() const { return bestLabels; }
  /// The cheapest labels within capacity that the search has met, if any.
  const std::optional<Labels> &getFeasibleLabels() const { return feasible; }
  double getWork() const { return work; }

  /// Passes the tables at the best prices back. Call it before `rest`.
  void prepare();

  /// The costs plus usage at the best prices. `bound` is the part that belongs
  /// to no variable: the constant less the price of the capacities.
  Dual::Reduced pricedCosts() const;
  /// The order of the buckets, one for each variable.
  const EliminationOrder &getOrder() const { return engine.getOrder(); }
  /// The least priced cost of all variables and pairs outside of a bucket's
  /// subtree, given the labels of the bucket's separator in `x`.
  double rest(size_t bucket, const Labels &x) const {
    return engine.rest(bucket, x);
  }

private:
  double evaluate(const std::vector<double> &prices);
  void climbOne(double start, const std::function<bool()> &stop);
  void climbMany(const std::vector<double> &start, double target,
                 const std::function<bool()> &stop);

  const CostTables &tables;
  const TablePool &pool;
  const Model &m;
  Elimination engine;
  bool usable = false;
  double best;
  double rounding = 0;
  std::vector<double> bestPrices;
  Labels bestLabels, x;
  std::optional<Labels> feasible;
  Cost feasibleCost = kInfiniteCost;
  std::vector<double> excess; ///< By time: usage of `x` beyond the capacity.
  double work = 0;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_TREEBOUND_H
