//===- Dual.h - A lower bound that rises ------------------------*- C++ -*-===//
//
// Combines two relaxations. Memory gets a price per time and unit, so that
// usage becomes a cost instead of a constraint (Lagrangian relaxation). The
// priced problem is a Markov random field, which is bounded by moving costs
// between variables and pairs (sequential tree-reweighted message passing:
// Kolmogorov, "Convergent Tree-Reweighted Message Passing for Energy
// Minimization", PAMI 28, 2006, section 4). For any prices >= 0 and any
// messages
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

/// Prices and messages of a model. Any prices >= 0 and any messages give a
/// bound; those of a similar model give a good bound at once.
struct DualState {
  std::vector<double> prices; ///< By time; empty: all zero.
  /// By pair: its messages to the values of `a`, then to those of `b`. Empty:
  /// all zero.
  std::vector<std::vector<double>> messages;
};

/// Carries prices and messages over from a model to a more reduced one. The
/// price of a time that `to` lacks is added to that of the next time.
DualState carryOver(const DualState &state, const Model &from,
                    const ModelNames &fromNames, const Model &to,
                    const ModelNames &toNames);

/// The bound of one model, which must outlive this object, as must its tables.
/// Copies share what does not change. Not thread-safe.
class Dual {
public:
  Dual(const Model &m, const TablePool &tables, const DualState &from);

  /// Prices per time; at least 0.
  const std::vector<double> &getPrices() const { return price; }
  void setPrices(const std::vector<double> &prices);

  /// The prices and messages, from which another Dual can start.
  DualState getState() const;

  /// One pass over all variables, backward and forward; never lowers the bound.
  /// Leaves in `guess` a guess at a good assignment.
  void pass();
  const Labels &getGuess() const { return guess; }

  /// Another guess, decoded in the opposite order. Every value costs a random
  /// amount of up to `noise` more, and prices are multiplied by `priceFactor`.
  /// Call it only after a pass.
  Labels sample(double noise, double priceFactor, Random &r) const;

  /// The bound, including the model's constant.
  double getBound() const;

  /// An upper limit on what rounding may have added to the bound.
  double getRounding() const;

  /// Raises the prices of times at which the guess's averaged usage exceeds the
  /// capacity, and lowers the others: the volume algorithm (Barahona and Anbil,
  /// Math. Programming 87, 2000). `target` is a cost that the bound should
  /// approach.
  void stepPrices(double target, double scale);

  /// For every value, a bound on the cost of assignments that use it.
  std::vector<std::vector<double>> valueBounds() const;

  /// Costs after messages have moved them between variables and pairs, so that
  /// no entry is negative. Their sum over an assignment, plus the bound, is the
  /// assignment's cost plus the price of its usage beyond the capacities.
  struct Reduced {
    std::vector<std::vector<double>> unary;
    std::vector<std::vector<double>> pairs; ///< As Pair::table.
    double bound = 0;
    double rounding = 0;
  };
  Reduced reducedCosts() const;

private:
  /// One of the two variables of a pair, as seen by the other.
  struct Link {
    int32_t other;
    int32_t size;             ///< Of the other variable.
    const double *table;      ///< Rows: own values; columns: the other's.
    const double *transposed; ///< Rows: the other's values.
    size_t toOwn, toOther;    ///< Where their messages start.
  };
  struct Layout {
    std::vector<size_t> offsets; ///< Variable -> its first value.
    std::vector<size_t> messageToA, messageToB;
    std::vector<std::vector<Link>> earlier, later; ///< By variable.
  };
  void build();
  void rebuildUnary();
  void push(int32_t var, const std::vector<Link> &ahead,
            const std::vector<Link> &behind);
  void priceDecided(size_t var, const std::vector<Link> &decided,
                    const Labels &x, std::vector<double> &sum) const;
  void decode();
  double leastOf(int32_t var) const;
  double leastOfPair(size_t id) const;
  double entry(size_t id, size_t a, size_t b) const {
    auto columns = static_cast<size_t>(m->vars[m->pairs[id].b].size());
    return tables->getTable(id)[a * columns + b] -
           messages[fixed->messageToA[id] + a] -
           messages[fixed->messageToB[id] + b];
  }

  const Model *m;
  const TablePool *tables;
  std::shared_ptr<const Layout> fixed;
  std::vector<double> unary; ///< With prices and messages; by value.
  /// The messages from pairs to variables: by pair, first to `a`, then to `b`.
  std::vector<double> messages;
  std::vector<double> price;
  std::vector<double> averageUsage;
  std::vector<double> scratch;
  Labels guess;
  int64_t passes = 0;
  bool settled = false; ///< Every pair's least entry is zero: after a pass.
};

/// The price of every value, variable after variable: usage times price,
/// summed over the times of its loads.
std::vector<double> priceValues(const Model &m,
                                const std::vector<double> &price);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_BOUND_DUAL_H
