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
  /// Usable if the elimination of everything visits at most `MaxEntries`.
  TreeBound(const CostTables &Tables, const TablePool &Pool, double MaxEntries);
  bool usable() const { return Usable; }

  /// Searches for the best prices, starting from `Prices`.
  void climb(const std::vector<double> &Prices, double Target,
             const std::function<bool()> &Stop);

  double bound() const { return Best; } ///< Less what rounding may have added.
  const std::vector<double> &prices() const { return BestPrices; }
  const Labels &labels() const { return BestLabels; }
  /// The cheapest labels within capacity that were come across, if any.
  const std::optional<Labels> &feasibleLabels() const { return Feasible; }
  double work() const { return Work; }

  /// Passes the tables at the best prices back; then `rest` may be asked for.
  void prepare();

  /// Priced costs and, as `Bound`, what belongs to no variable.
  Dual::Reduced pricedCosts() const;
  /// The tables, for the searches that stand on them; bucket I is that of
  /// variable `members()[I]`, in the order of `chooseOrder`.
  const Elimination &tables() const { return Engine; }
  /// The least priced cost of what is not below the bucket, given the labels
  /// of its separator in `X`.
  double rest(size_t Bucket, const Labels &X) const {
    return Engine.rest(Bucket, X);
  }

private:
  double evaluate(const std::vector<double> &Prices);
  void climbOne(double Start, const std::function<bool()> &Stop);
  void climbMany(const std::vector<double> &Start, double Target,
                 const std::function<bool()> &Stop);

  const CostTables &Tables;
  const TablePool &Pool;
  const Model &M;
  Elimination Engine;
  bool Usable = false;
  double Best;
  double Rounding = 0;
  std::vector<double> BestPrices;
  Labels BestLabels, X;
  std::optional<Labels> Feasible;
  Cost FeasibleCost = InfiniteCost;
  std::vector<double> Excess; ///< Of the labels last found.
  double Work = 0;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_TREEBOUND_H
