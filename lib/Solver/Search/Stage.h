//===- Stage.h - All searches on one reduced model --------------*- C++ -*-===//
//
// Works in rounds. In each round, a fixed number of independent tasks starts
// from the same state, and their results are joined in a fixed order. So the
// result depends on the seed and on the number of rounds, not on the threads.
//
// Most tasks are walkers: searches with an assignment of their own. Exploiting
// walkers improve one common assignment, `exploited`. Each of the others
// searches on its own for a number of rounds, its life; then it sets out again
// from a new assignment.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_STAGE_H
#define HEDDLE_LIB_SOLVER_SEARCH_STAGE_H

#include "Bound/Ascent.h"
#include "Exact/Exact.h"
#include "Search/Search.h"

#include <deque>
#include <memory>
#include <optional>

namespace heddle::solver {

class Stage {
public:
  /// The bound starts from the prices and messages in `from`.
  Stage(Model reduced, uint64_t seed, const DualState &from);

  /// Finds first prices and a first assignment. If at most one time binds and
  /// the tree decomposition is narrow, this also runs the exact search, which
  /// often finds the optimum. `known` as below.
  void begin(double target, Cost known, const std::function<bool()> &stop);

  /// One round of all tasks. The bound aims at the cost `target`. `known` is
  /// the best cost known, or `kInfiniteCost`.
  void round(double target, Cost known, unsigned threads,
             const std::function<bool()> &stop);

  /// Whether it is proven that no assignment costs less than `getBest()`, or
  /// less than the best cost that was known before.
  bool isFinished() const { return finished; }

  /// Replaces the best assignment by `x` if `x` is better.
  void adopt(const Labels &x);

  const Model &getModel() const { return m; }
  const Candidate &getBest() const { return best; }
  /// The assignment that most of the search improves; see `exploited`.
  const Candidate &getExploited() const { return exploited; }
  bool isFeasible() const { return best.isFeasible(); }
  const Ascent &getAscent() const { return climber; }
  /// The best bound that any method has found.
  double getBound() const;
  double getWork() const;

private:
  struct Walker {
    Search engine;
    Candidate current;
    int age = 0;          ///< Rounds spent exploiting.
    int left = 0;         ///< Rounds until the walker sets out again.
    int unpin = 0;        ///< The value of `left` at which the pin is removed.
    Random luck{0};       ///< For setting out and searches among few values.
    double extraWork = 0; ///< The work of searches among few values.
  };
  Labels sample(Random &r) const;
  std::vector<std::vector<int32_t>>
  valuesToTry(size_t index, Walker &w, const std::function<bool()> &stop);
  void walkRestricted(size_t index, const std::function<bool()> &stop);
  void setOut(Walker &w, bool mayPin, const std::function<bool()> &stop);
  bool pinOther(Walker &w);
  double unusedShareOfGap() const;
  void walk(size_t index, bool afresh, const std::function<bool()> &stop);
  void join(size_t first, size_t end);
  void remember(const Candidate &c);
  void chooseExploited(Cost before);
  bool exactIsDue() const;
  void takeExact();
  void prepareTree();
  double exactWeight() const;
  void constructOneLimit(const std::function<bool()> &stop);
  void tryExact(Cost known, const std::function<bool()> &stop);

  Model m;
  TablePool pool;
  CostTables tables;
  Ascent climber;
  std::vector<std::unique_ptr<Walker>> walkers;
  Candidate best;
  /// The assignment that the exploiting walkers improve. When it stalls, it is
  /// replaced: in turn by a new one that takes nothing from the best
  /// assignment, and by the best assignment.
  Candidate exploited;
  bool anew = false;       ///< `exploited` is such a new assignment.
  bool settingOut = false; ///< `exploited` is built anew in this round.
  int roundsStalled = 0;   ///< Since `exploited` became notably better.
  double roundQuota;       ///< Table entries of a walker in a round.
  double climbQuota;
  double lastBound = 0;
  int roundsAtRest = 0; ///< Since the bound rose notably.
  // The climber's results before the round. The climber changes during the
  // round.
  std::optional<Dual> relaxed;
  std::vector<double> prices;
  Labels guess;
  double bound = 0;
  std::vector<std::vector<double>> valueBounds;
  /// The assignments of the walkers that search on their own, and those of
  /// `ended`.
  std::vector<Labels> proposals;
  std::deque<Labels> ended; ///< The last assignments of recent lives.
  /// The costs for the exact search; set in rounds that try it.
  std::optional<Dual::Reduced> forExact;
  ExactResult exact;
  bool oneLimit = false; ///< At most one time binds; the tree is narrow.
  TreeBound tree;
  double proven; ///< The bound that the exact search has proven.
  /// How far above the bound the exact search looks for assignments.
  double exactStep = 0;
  double exactBudget = 3e4; ///< Entries that it may visit in the next try.
  double exactWork = 0;
  bool finished = false;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_STAGE_H
