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
  Labels X;
  Cost Total = 0;     ///< Of what is not forbidden; saturated.
  int Forbidden = 0;  ///< Infinite entries.
  double Overuse = 0; ///< Summed over times.
  bool feasible() const {
    return Overuse == 0 && Forbidden == 0 && Total < InfiniteCost;
  }
  bool betterThan(const Candidate &O) const {
    if (Overuse != O.Overuse)
      return Overuse < O.Overuse;
    if (Forbidden != O.Forbidden)
      return Forbidden < O.Forbidden;
    return Total < O.Total;
  }
};

/// Fills in the rest of a candidate.
void score(const Model &M, Candidate &C);

/// Improves candidates. One per task: it owns its memory and its luck.
class Search {
public:
  Search(const CostTables &Tables, uint64_t Seed);

  /// The largest table and the sum of tables of a neighbourhood, in entries.
  double MaxTable = 1e5;
  double MaxTotal = 1e6;
  double MaxWhole = 1.6e7; ///< The sum for everything but a cutset.

  /// Keeps the value of this variable from now on; -1: of none.
  void pin(int32_t Var) {
    Pinned = Var;
    Replan = true;
  }

  /// Solves everything at rising prices until the limit is kept, or a number of
  /// times, or until `Quota` table entries have been visited; starts from and
  /// returns into `C`.
  void construct(Candidate &C, const std::vector<double> &Prices, double Quota,
                 const std::function<bool()> &Stop);

  /// Tries neighbourhoods until `Quota` table entries have been visited. May
  /// pass through candidates that are worse by up to `Tolerance`, but returns
  /// the best.
  void improve(Candidate &C, const std::vector<double> &Prices, double Quota,
               Cost Tolerance, const std::function<bool()> &Stop);

  /// Solves everything but a cutset, again and again until `Quota` table
  /// entries have been visited.
  void improveAtOnce(Candidate &C, const std::vector<double> &Prices,
                     double Quota, const std::function<bool()> &Stop);

  /// Table entries visited so far.
  double work() const { return Work; }

private:
  void varyPrices(const std::vector<double> &Prices);
  void raisePrices(double Growth, double LeastShare);
  bool tryPrices(Candidate &Current, Candidate &Best, Cost Tolerance,
                 const std::vector<double> &Prices);
  bool tryAtOnce(Candidate &Current, Candidate &Best, Cost Tolerance,
                 const std::vector<double> &Prices,
                 const std::function<bool()> &Stop);
  bool tryExactly(Candidate &Current, Candidate &Best,
                  const std::vector<double> &Prices,
                  const std::function<bool()> &Stop);
  void chooseRegion(size_t Size);
  void growRegion(int32_t Seed, size_t Size);
  void solveAt(Elimination &Engine, const std::vector<double> &Prices,
               Candidate &C);
  void planWhole();
  bool hasChoice(int32_t V) const {
    return V != Pinned && M.Vars[V].size() > 1;
  }

  const CostTables &Tables;
  const Model &M;
  Elimination Part;  ///< Of a region.
  Elimination Whole; ///< Of all variables, but for a cutset.
  Random R;
  double Work = 0;
  int32_t Pinned = -1;
  bool Replan = true; ///< `Whole` is not what it should be.
  std::vector<int32_t> Region;
  std::vector<char> InRegion;
  std::vector<double> Extra;
  std::vector<double> PriceSums;
  std::vector<Usage> Used;
  Candidate Next;
  std::vector<double> Local;

  /// How often a kind of move has paid off lately.
  struct Merit {
    double Gain = 1, Work = 1;
  };
  Merit ByPrices, ByExact;
  double ExactSize = 12; ///< Variables that an exact move can handle.
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_SEARCH_H
