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

#ifndef HEDDLE_LIB_SOLVER_BOUND_DUAL_H
#define HEDDLE_LIB_SOLVER_BOUND_DUAL_H

#include "Bound/TablePool.h"
#include "heddle/Support/Random.h"

#include <memory>

namespace heddle::solver {

/// Prices and messages of a model. Any prices >= 0 and any messages
/// give a bound; those of a similar model give a good one at once.
struct DualState {
  std::vector<double> Prices; ///< By time; empty: none.
  /// By pair: what it has handed to the values of `A`, then to those of `B`.
  std::vector<std::vector<double>> Messages; ///< Empty: none.
};

/// Carries what is known of a model over to a later, more reduced one. A price
/// whose time is gone goes to the next one.
DualState carryOver(const DualState &State, const Model &From,
                    const ModelNames &FromNames, const Model &To,
                    const ModelNames &ToNames);

/// The bound of one model, which must outlive this object, as must its tables.
/// Copies share what does not change. Not thread-safe.
class Dual {
public:
  Dual(const Model &M, const TablePool &Tables, const DualState &From);

  /// Prices per time; at least 0.
  const std::vector<double> &prices() const { return Price; }
  void setPrices(const std::vector<double> &Prices);

  /// All that another one can start from.
  DualState state() const;

  /// One pass over all variables, forward and backward; never lowers the
  /// bound. Leaves a guess at a good assignment in `guess`.
  void pass();
  const Labels &guess() const { return Guess; }

  /// Another guess, decoded in the opposite order, where every value costs up
  /// to `Noise` more than it does and prices are multiplied. Only after a pass.
  Labels sample(double Noise, double PriceFactor, Random &R) const;

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
  /// One of the two variables of a pair, as seen by the other.
  struct Link {
    int32_t Other;
    int32_t Size;             ///< Of the other variable.
    const double *Table;      ///< Rows: own values; columns: the other's.
    const double *Transposed; ///< Rows: the other's values.
    size_t ToOwn, ToOther;    ///< Where their messages start.
  };
  struct Layout {
    std::vector<size_t> Offsets; ///< Variable -> its first value.
    std::vector<size_t> MessageToA, MessageToB;
    std::vector<std::vector<Link>> Earlier, Later; ///< By variable.
  };
  void build();
  void rebuildUnary();
  void push(int32_t Var, const std::vector<Link> &Ahead,
            const std::vector<Link> &Behind);
  void priceDecided(size_t Var, const std::vector<Link> &Decided,
                    const Labels &X, std::vector<double> &Sum) const;
  void decode();
  double leastOf(int32_t Var) const;
  double leastOfPair(size_t Id) const;
  double entry(size_t Id, size_t A, size_t B) const {
    auto Columns = static_cast<size_t>(M->Vars[M->Pairs[Id].B].size());
    return Tables->table(Id)[A * Columns + B] -
           Messages[Fixed->MessageToA[Id] + A] -
           Messages[Fixed->MessageToB[Id] + B];
  }

  const Model *M;
  const TablePool *Tables;
  std::shared_ptr<const Layout> Fixed;
  std::vector<double> Unary; ///< With prices and messages; by value.
  /// What pairs have handed to variables: by pair, first to `A`, then to `B`.
  std::vector<double> Messages;
  std::vector<double> Price;
  std::vector<double> AverageUsage;
  std::vector<double> Scratch;
  Labels Guess;
  int64_t Passes = 0;
  bool Settled = false; ///< Every pair's least entry is zero, as after a pass.
};

/// The price of every value, variable after variable: usage times price,
/// summed over the times of its loads.
std::vector<double> priceValues(const Model &M,
                                const std::vector<double> &Price);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_DUAL_H
