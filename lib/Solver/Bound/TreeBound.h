//===- TreeBound.h - The exact bound of narrow models -----------*- C++ -*-===//
//
// Where the tables of an elimination fit, the Lagrangian relaxation of memory
// can be solved exactly for any prices: no cycle loosens the bound. The same
// tables, passed back from the root, tell what the rest of the model costs at
// least for any labels of a separator.
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
  /// Usable if the elimination of everything visits at most `maxEntries`.
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
  /// The cheapest labels within capacity that were come across, if any.
  const std::optional<Labels> &getFeasibleLabels() const { return feasible; }
  double getWork() const { return work; }

  /// Passes the tables at the best prices back; then `rest` may be asked for.
  void prepare();

  /// Priced costs and, as `bound`, what belongs to no variable.
  Dual::Reduced pricedCosts() const;
  /// The order of its buckets: that of `chooseOrder` for all variables.
  const EliminationOrder &getOrder() const { return engine.getOrder(); }
  /// The least priced cost of what is not below a bucket, given the labels of
  /// its separator in `x`.
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
  std::vector<double> excess; ///< Of the labels last found.
  double work = 0;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_TREEBOUND_H
