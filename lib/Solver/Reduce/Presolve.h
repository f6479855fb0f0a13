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
  /// `p` must be valid.
  explicit Presolver(const Problem &p);

  /// Reduces to a fixed point, or until `stop`: what is reduced by then can be
  /// used. False: no assignment exists, `whyInfeasible` tells which reduction
  /// proved it.
  bool run(const std::function<bool()> &stop);

  const std::string &whyInfeasible() const { return reason; }

  /// The live part, renumbered.
  Model extract() const;

  /// The numbers that variables and values of the last `extract` have here.
  /// Times are numbered by the problem's maximal times.
  ModelNames getNames() const;

  /// Removes values that a bound has excluded, by the numbering of the last
  /// `extract`: `keep[variable][value]`. Call `run` afterwards.
  void restrict(const std::vector<std::vector<char>> &keep);

  /// A full assignment of the problem from labels of the last `extract`.
  Assignment expand(const Labels &x) const;

  /// The other way round: labels of the last `extract` that are no worse than
  /// `a`, a feasible assignment. None if `a` uses a value that `restrict` has
  /// removed.
  std::optional<Labels> project(const Assignment &a) const;

private:
  /// How to find the value of a variable that is no longer there.
  struct Removal {
    int32_t var;
    std::vector<int32_t> given; ///< Variables that decide it: 0, 1 or 2.
    std::vector<std::vector<int32_t>> indexOf; ///< First value -> index.
    std::vector<int32_t> choice; ///< By index of Given, row-major.
  };

  /// An edge that became a variable, and what its values stand for.
  struct WideEdge {
    int32_t var;
    std::vector<uint32_t> nodes;
    std::vector<std::vector<int32_t>> values; ///< By node, then own value.
  };

  void addNodes(const Problem &p);
  void addEdges(const Problem &p);
  void addWideEdge(const Problem &p, const Edge &e);
  void addPair(int32_t a, int32_t b, std::vector<Cost> table);
  void dropPair(int32_t id);
  void detach(int32_t var, int32_t pairId);
  int32_t findPair(int32_t a, int32_t b) const;

  void makeArcConsistent(const std::function<bool()> &stop);
  bool supportInPair(int32_t id);
  void pruneByMemory();
  void removeDominated(const std::function<bool()> &stop);
  void removeDominated(int32_t var, const std::function<bool()> &stop);
  uint64_t shapeOf(size_t var) const;
  bool dominates(int32_t var, int32_t better, int32_t worse) const;
  bool keepValues(int32_t var, const std::vector<char> &keep);
  void makePairsSeparable();
  void mergeBijections();
  void mergeInto(int32_t kept, int32_t gone, const std::vector<int32_t> &map,
                 int32_t pairId);
  void eliminateFree(const std::function<bool()> &stop);
  void eliminate(int32_t var);
  void reduceTimes();
  void normalizeLoads();
  size_t measure() const;
  PairView view(int32_t id, int32_t var) const {
    return PairView(work, work.pairs[id], var);
  }

  Model work; ///< All variables and pairs; dead ones are skipped.
  std::vector<std::vector<int32_t>> origin;
  std::vector<int32_t> firstSize;
  std::vector<char> alive;
  std::vector<char> pairAlive;
  std::unordered_map<uint64_t, int32_t> pairOf;
  std::vector<Removal> removals;
  std::vector<WideEdge> wideEdges;
  std::vector<int32_t> timeOf;
  std::vector<uint64_t> shapeWhenChecked; ///< By `removeDominated`.
  /// For a dominated value, the one that replaces it; by first value, or -1.
  std::vector<std::vector<int32_t>> replacement;
  size_t nodeCount = 0;
  bool infeasible = false;
  std::string reason;
};

/// The times of a problem at which the set of live nodes is not part of the
/// set at a neighbouring time, ascending: the limit holds everywhere if it
/// holds at these.
std::vector<int64_t> maximalTimes(const Problem &p);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_REDUCE_PRESOLVE_H
