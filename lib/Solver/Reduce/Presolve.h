//===- Presolve.h - Make a problem smaller without losing its optimum -----===//
//
// Reductions, repeated until none applies:
//   - arc consistency: a value without a finite partner in some pair goes;
//   - memory: a value that overruns the limit even if every other variable
//     uses its least goes;
//   - dominance (Goldstein's dead-end elimination, Biophys. J. 66, 1994): a
//     value goes if another one is no worse whatever its neighbours take and
//     never uses more;
//   - separable pairs become unary costs;
//   - merging: a pair whose finite entries are a bijection makes two variables
//     one;
//   - elimination of variables of degree at most two that use no memory
//     (Koster, van Hoesel and Kolen, Networks 40, 2002);
//   - times: those that can never bind, and those dominated by a neighbour.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_REDUCE_PRESOLVE_H
#define HEDDLE_LIB_SOLVER_REDUCE_PRESOLVE_H

#include "Reduce/Model.h"

#include <functional>
#include <optional>
#include <unordered_map>

namespace heddle::solver {

/// A reduced model and the way back. Variables start as the nodes of the
/// problem, in order, followed by one for each edge of three or more nodes.
class Presolver {
public:
  /// `P` must be valid.
  explicit Presolver(const Problem &P);

  /// Reduces to a fixed point, or until `Stop`: what is reduced by then can be
  /// used. False: no assignment exists, `whyInfeasible` tells which reduction
  /// proved it.
  bool run(const std::function<bool()> &Stop);

  const std::string &whyInfeasible() const { return Reason; }

  /// The live part, renumbered.
  Model extract() const;

  /// What variables and values of the last `extract` are called here; times are
  /// numbers of the problem's maximal times.
  ModelNames names() const;

  /// Removes values that a bound has excluded, by the numbering of the last
  /// `extract`: `Keep[variable][value]`. Call `run` afterwards.
  void restrict(const std::vector<std::vector<char>> &Keep);

  /// A full assignment of the problem from labels of the last `extract`.
  Assignment expand(const Labels &X) const;

  /// The other way round: labels of the last `extract` that are no worse than
  /// `A`, a feasible assignment. None if `A` uses a value that `restrict` has
  /// removed.
  std::optional<Labels> project(const Assignment &A) const;

private:
  /// How to find the value of a variable that is no longer there.
  struct Removal {
    int32_t Var;
    std::vector<int32_t> Given; ///< Variables that decide it: 0, 1 or 2.
    std::vector<std::vector<int32_t>> IndexOf; ///< First value -> index.
    std::vector<int32_t> Choice; ///< By index of Given, row-major.
  };

  /// An edge that became a variable, and what its values stand for.
  struct WideEdge {
    int32_t Var;
    std::vector<uint32_t> Nodes;
    std::vector<std::vector<int32_t>> Values; ///< By node, then own value.
  };

  void addNodes(const Problem &P);
  void addEdges(const Problem &P);
  void addWideEdge(const Problem &P, const Edge &E);
  void addPair(int32_t A, int32_t B, std::vector<Cost> Table);
  void dropPair(int32_t Id);
  void detach(int32_t Var, int32_t PairId);
  int32_t findPair(int32_t A, int32_t B) const;

  void makeArcConsistent(const std::function<bool()> &Stop);
  bool supportInPair(int32_t Id);
  void pruneByMemory();
  void removeDominated(const std::function<bool()> &Stop);
  void removeDominated(int32_t Var, const std::function<bool()> &Stop);
  uint64_t shapeOf(size_t Var) const;
  bool dominates(int32_t Var, int32_t Better, int32_t Worse) const;
  bool keepValues(int32_t Var, const std::vector<char> &Keep);
  void makePairsSeparable();
  void mergeBijections();
  void mergeInto(int32_t Kept, int32_t Gone, const std::vector<int32_t> &Map,
                 int32_t PairId);
  void eliminateFree(const std::function<bool()> &Stop);
  void eliminate(int32_t Var);
  void reduceTimes();
  void normalizeLoads();
  size_t measure() const;
  PairView view(int32_t Id, int32_t Var) const {
    return PairView(Work, Work.Pairs[Id], Var);
  }

  Model Work; ///< All variables and pairs; dead ones are skipped.
  std::vector<std::vector<int32_t>> Origin;
  std::vector<int32_t> FirstSize;
  std::vector<char> Alive;
  std::vector<char> PairAlive;
  std::unordered_map<uint64_t, int32_t> PairOf;
  std::vector<Removal> Removals;
  std::vector<WideEdge> WideEdges;
  std::vector<int32_t> TimeOf;
  std::vector<uint64_t> ShapeWhenChecked; ///< By `removeDominated`.
  /// For a dominated value, the one that replaces it; by first value, or -1.
  std::vector<std::vector<int32_t>> Replacement;
  size_t NodeCount = 0;
  bool Infeasible = false;
  std::string Reason;
};

/// The times of a problem at which the set of live nodes is not part of the
/// set at a neighbouring time, ascending: the limit holds everywhere if it
/// holds at these.
std::vector<int64_t> maximalTimes(const Problem &P);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_REDUCE_PRESOLVE_H
