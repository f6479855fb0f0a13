//===- Dual.h - A lower bound that rises ------------------------*- C++ -*-===//
//
// Two relaxations at once. Memory: a price per time and unit, so that usage
// becomes a cost of its own (Lagrangian relaxation). What remains is a Markov
// random field, bounded by moving costs between variables and pairs
// (sequential tree-reweighted message passing: Kolmogorov, "Convergent
// Tree-Reweighted Message Passing for Energy Minimization", PAMI 28, 2006,
// section 4). For any prices >= 0 and any messages
//
//   sum over variables of the least unary + sum over pairs of the least entry
//     - sum over times of price * capacity
//
// is at most the cost of every feasible assignment.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PLAN_SOLVER_DUAL_H
#define HEDDLE_LIB_PLAN_SOLVER_DUAL_H

#include "Model.h"

namespace heddle::solver {

/// The bound of one model, which must outlive this object. Not thread-safe.
class Dual {
public:
  explicit Dual(const Model &M);

  /// Takes over the state of another bound of the same model.
  void assign(const Dual &Other);

  /// Prices per time; at least 0.
  const std::vector<double> &prices() const { return Price; }
  void setPrices(const std::vector<double> &Prices);

  /// One pass over all variables, forward and backward; never lowers the
  /// bound. Leaves a guess at a good assignment in `guess`.
  void pass();
  const Labels &guess() const { return Guess; }

  /// The bound, constant included.
  double bound() const;

  /// An upper limit on what rounding may have added to `bound`.
  double rounding() const;

  /// A step of the prices along the (averaged) usage of `guess`: the volume
  /// algorithm (Barahona and Anbil, Math. Programming 87, 2000). `Target` is
  /// a cost that the bound should approach.
  void stepPrices(double Target, double Scale);

  /// For every value, a bound on the cost of assignments that use it.
  std::vector<std::vector<double>> valueBounds() const;

  /// Costs moved around so that no entry is negative and their sum over an
  /// assignment, plus the bound, is its cost plus its priced excess usage.
  struct Reduced {
    std::vector<std::vector<double>> Unary;
    std::vector<std::vector<double>> Pairs; ///< As Pair::Table.
    double Bound = 0;
    double Rounding = 0;
  };
  Reduced reducedCosts() const;

private:
  void pushFrom(int32_t Var, bool Forward);
  void decode();
  double entry(size_t PairId, size_t A, size_t B) const {
    const Message &T = Messages[PairId];
    return Tables[PairId][A * T.ToB.size() + B] - T.ToA[A] - T.ToB[B];
  }

  /// What a pair has handed to its two variables.
  struct Message {
    std::vector<double> ToA, ToB;
  };
  const Model &M;
  std::vector<std::vector<double>> Tables; ///< As Pair::Table.
  std::vector<std::vector<double>> Unary;  ///< With prices and messages.
  std::vector<Message> Messages;
  std::vector<double> Price;
  std::vector<double> AverageUsage;
  std::vector<double> Scratch;
  Labels Guess;
};

/// The price of every value of every variable: usage times price, summed over
/// the times of its loads.
std::vector<std::vector<double>> priceValues(const Model &M,
                                             const std::vector<double> &Price);

} // namespace heddle::solver

#endif // HEDDLE_LIB_PLAN_SOLVER_DUAL_H
