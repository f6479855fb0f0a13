//===- Search.h - Large-neighbourhood search --------------------*- C++ -*-===//
//
// Large-neighbourhood search (Shaw, "Using Constraint Programming and Local
// Search Methods to Solve Vehicle Routing Problems", CP 1998). A neighbourhood
// is solved exactly by Elimination.h, with prices for memory. If the optimum
// exceeds the memory limit, the neighbourhood is solved again at higher prices.
// Smaller neighbourhoods are solved with the limit itself (Exact.h): these
// solutions exchange memory between variables in ways that no price brings
// about.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_SEARCH_H
#define HEDDLE_LIB_SOLVER_SEARCH_SEARCH_H

#include "Bound/Elimination.h"

#include <functional>

namespace heddle::solver {

/// An assignment and how good it is.
struct Candidate {
  Labels x;
  Cost total = 0;     ///< The sum of all finite entries; saturated.
  int forbidden = 0;  ///< The number of infinite entries.
  double overuse = 0; ///< Usage beyond the capacity, summed over times.
  bool isFeasible() const {
    return overuse == 0 && forbidden == 0 && total < kInfiniteCost;
  }
  bool betterThan(const Candidate &o) const {
    if (overuse != o.overuse)
      return overuse < o.overuse;
    if (forbidden != o.forbidden)
      return forbidden < o.forbidden;
    return total < o.total;
  }
};

/// Computes all fields of a candidate from its labels `x`.
void score(const Model &m, Candidate &c);

/// Improves candidates. Every task needs one of its own, since it has scratch
/// memory and a random number generator.
class Search {
public:
  Search(const CostTables &tables, uint64_t seed);

  /// The most entries of one table.
  double maxTable = 1e5;
  /// The most entries of all tables of a neighbourhood.
  double maxTotal = 1e6;
  /// The most entries of all tables if everything but a cutset is solved.
  double maxWhole = 1.6e7;

  /// From now on, the search does not change the value of `var`. -1: it may
  /// change every variable.
  void pin(int32_t var) {
    pinned = var;
    replan = true;
  }

  /// Solves everything but a cutset, again and again at rising prices. Starts
  /// from `c` and replaces it by the best result. Ends at the first feasible
  /// result, after a fixed number of attempts, when `quota` of work is used up
  /// (see `getWork`), or when `stop` returns true.
  void construct(Candidate &c, const std::vector<double> &prices, double quota,
                 const std::function<bool()> &stop);

  /// Tries neighbourhoods until `quota` of work is used up or `stop` returns
  /// true, and replaces `c` by the best candidate found. On the way, a
  /// candidate may be worse than the one before by up to `tolerance`.
  void improve(Candidate &c, const std::vector<double> &prices, double quota,
               Cost tolerance, const std::function<bool()> &stop);

  /// Like `improve` with a tolerance of 0, but every neighbourhood is
  /// everything but a cutset.
  void improveAtOnce(Candidate &c, const std::vector<double> &prices,
                     double quota, const std::function<bool()> &stop);

  /// The work so far: the table entries visited. The work of planning and of
  /// the other methods is estimated in the same unit.
  double getWork() const { return work; }

private:
  void varyPrices(const std::vector<double> &prices);
  void raisePrices(double growth, double leastShare);
  bool tryPrices(Candidate &current, Candidate &best, Cost tolerance,
                 const std::vector<double> &prices);
  bool tryAtOnce(Candidate &current, Candidate &best, Cost tolerance,
                 const std::vector<double> &prices,
                 const std::function<bool()> &stop);
  bool tryExactly(Candidate &current, Candidate &best,
                  const std::vector<double> &prices,
                  const std::function<bool()> &stop);
  void chooseRegion(size_t size);
  void growRegion(int32_t seed, size_t size);
  void solveAt(Elimination &engine, const std::vector<double> &prices,
               Candidate &c);
  void planWhole();
  bool hasChoice(int32_t v) const {
    return v != pinned && m.vars[v].size() > 1;
  }

  const CostTables &tables;
  const Model &m;
  Elimination part;  ///< Eliminates a region.
  Elimination whole; ///< Eliminates all variables but a cutset.
  Random r;
  double work = 0;
  int32_t pinned = -1;
  bool replan = true; ///< `whole` has no plan since `pinned` was set.
  std::vector<int32_t> region;
  std::vector<char> inRegion;
  std::vector<double> extra;
  std::vector<double> priceSums;
  std::vector<Usage> used;
  Candidate next;
  std::vector<double> local;

  /// How often a kind of move has paid off lately: the ratio of gain to work.
  struct Merit {
    double gain = 1, work = 1;
  };
  Merit byPrices, byExact;
  double exactSize = 12; ///< Variables that an exact move can handle.
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_SEARCH_H
