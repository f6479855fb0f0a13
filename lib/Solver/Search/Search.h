//===- Search.h - Large-neighbourhood search --------------------*- C++ -*-===//
//
// Shaw, "Using Constraint Programming and Local Search Methods to Solve
// Vehicle Routing Problems", CP 1998, with neighbourhoods solved exactly by
// Elimination.h and memory steered by prices: a neighbourhood whose optimum
// overruns the limit is solved again at higher prices. Smaller ones are solved
// with the limit itself (Exact.h): these find the exchanges of memory that no
// price brings about.
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
  Cost total = 0;     ///< Without the forbidden entries; saturated.
  int forbidden = 0;  ///< Infinite entries.
  double overuse = 0; ///< Summed over times.
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

/// Fills in the rest of a candidate.
void score(const Model &m, Candidate &c);

/// Improves candidates. One per task: it owns its memory and its luck.
class Search {
public:
  Search(const CostTables &tables, uint64_t seed);

  /// The largest table and the sum of tables of a neighbourhood, in entries.
  double maxTable = 1e5;
  double maxTotal = 1e6;
  double maxWhole = 1.6e7; ///< The sum for everything but a cutset.

  /// Keeps the value of this variable from now on; -1: of none.
  void pin(int32_t var) {
    pinned = var;
    replan = true;
  }

  /// Solves everything at rising prices until the limit is kept, or a number of
  /// times, or until `quota` table entries have been visited; starts from and
  /// returns into `c`.
  void construct(Candidate &c, const std::vector<double> &prices, double quota,
                 const std::function<bool()> &stop);

  /// Tries neighbourhoods until `quota` table entries have been visited. May
  /// pass through candidates that are worse by up to `tolerance`, but returns
  /// the best.
  void improve(Candidate &c, const std::vector<double> &prices, double quota,
               Cost tolerance, const std::function<bool()> &stop);

  /// Solves everything but a cutset, again and again until `quota` table
  /// entries have been visited.
  void improveAtOnce(Candidate &c, const std::vector<double> &prices,
                     double quota, const std::function<bool()> &stop);

  /// Table entries visited so far.
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
  bool replan = true; ///< `whole` is not what it should be.
  std::vector<int32_t> region;
  std::vector<char> inRegion;
  std::vector<double> extra;
  std::vector<double> priceSums;
  std::vector<Usage> used;
  Candidate next;
  std::vector<double> local;

  /// How often a kind of move has paid off lately.
  struct Merit {
    double gain = 1, work = 1;
  };
  Merit byPrices, byExact;
  double exactSize = 12; ///< Variables that an exact move can handle.
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_SEARCH_H
