//===- Presolve.h - Make a problem smaller without losing its optimum -----===//
//
// Reductions, repeated until none applies:
//   - arc consistency: removes a value that has only infinite entries in some
//     pair;
//   - memory: removes a value that overruns the limit even if every other
//     variable uses its least;
//   - dominance (Goldstein's dead-end elimination, Biophys. J. 66, 1994):
//     removes a value if another value of the variable costs no more whatever
//     its neighbours take, and never uses more;
//   - separable pairs become unary costs;
//   - merging: two variables whose pair has finite entries that are a bijection
//     become one variable;
//   - elimination of variables of degree at most two that use no memory
//     (Koster, van Hoesel and Kolen, Networks 40, 2002);
//   - times: drops those that can never bind, and those whose limit holds if it
//     holds at a neighbouring time.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_REDUCE_PRESOLVE_H
#define HEDDLE_LIB_SOLVER_REDUCE_PRESOLVE_H

#include "Reduce/Model.h"

#include <functional>
#include <optional>
#include <unordered_map>

namespace heddle::solver {

/// Reduces a problem to a model, and translates assignments between the two.
/// The first variables are the nodes of the problem, in order, followed by one
/// for each edge of three or more nodes.
class Presolver {
public:
  /// `p` must be valid.
  explicit Presolver(const Problem &p);

  /// Reduces to a fixed point, or until `stop`; the model is valid in both
  /// cases. Returns false if no assignment exists. Then `whyInfeasible` says
  /// which reduction has proven that.
  bool run(const std::function<bool()> &stop);

  const std::string &whyInfeasible() const { return reason; }

  /// The reduced model, with the remaining variables renumbered.
  Model extract() const;

  /// Returns the names that the variables and values of the last `extract` have
  /// in the presolver: their numbers before all reductions. Times have their
  /// positions among the problem's maximal times.
  ModelNames getNames() const;

  /// Removes values that a bound has excluded, by the numbering of the last
  /// `extract`: `keep[variable][value]`. Call `run` afterwards.
  void restrict(const std::vector<std::vector<char>> &keep);

  /// A full assignment of the problem from labels of the last `extract`.
  Assignment expand(const Labels &x) const;

  /// The reverse of `expand`: labels of the last `extract` that are no worse
  /// than `a`, a feasible assignment. None if `a` uses a value that `restrict`
  /// has removed.
  std::optional<Labels> project(const Assignment &a) const;

private:
  /// The way to find the value of a removed variable. Values have the numbers
  /// that they had before all reductions.
  struct Removal {
    int32_t var;
    /// The variables that determine the value: none, one or two.
    std::vector<int32_t> given;
    std::vector<std::vector<int32_t>> indexOf; ///< By `given`: value -> index.
    std::vector<int32_t> choice; ///< By the indices of `given`, row-major.
  };

  /// An edge that became a variable. Each of its values stands for a
  /// combination of values of the edge's nodes.
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
  /// By variable, then value before all reductions: the value that dominates
  /// it, or -1.
  std::vector<std::vector<int32_t>> replacement;
  size_t nodeCount = 0;
  bool infeasible = false;
  std::string reason;
};

/// The times of a problem, ascending, at which the set of live nodes is not a
/// subset of the set at a neighbouring time. If the limit holds at these times,
/// it holds at all times.
std::vector<int64_t> maximalTimes(const Problem &p);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_REDUCE_PRESOLVE_H
