//===- Stage.h - All searches on one reduced model --------------*- C++ -*-===//
//
// Works in rounds. In each, a fixed number of tasks runs independently from
// the same state; their results are joined in a fixed order. So what is found
// depends on the seed and the rounds, not on the threads.
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
  /// `from`: what the bound starts from.
  Stage(Model reduced, uint64_t seed, const DualState &from);

  /// A first look: prices, then one assignment; where one time binds and the
  /// tree decomposition is narrow, all there is to know. `known` as below.
  void begin(double target, Cost known, const std::function<bool()> &stop);

  /// One round of all tasks. `target`: what the bound aims at; `known`: the
  /// best cost known, `kInfiniteCost` if there is none.
  void round(double target, Cost known, unsigned threads,
             const std::function<bool()> &stop);

  /// Whether it is proven that nothing is better than `getBest()`, or than what
  /// was known before.
  bool isFinished() const { return finished; }

  /// Takes `x` over if it is better than the best.
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
    int left = 0;         ///< Rounds until it sets out again.
    int unpin = 0;        ///< The value of `left` at which its pin is removed.
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
  /// The assignment that the exploiting walkers improve: the best one, or in
  /// turn one that set out anew and knows nothing of the best.
  Candidate exploited;
  bool anew = false;
  bool settingOut = false; ///< It does so in this round.
  int roundsStalled = 0;   ///< Since it became notably better.
  double roundQuota;       ///< Table entries of a walker in a round.
  double climbQuota;
  double lastBound = 0;
  int roundsAtRest = 0; ///< Since the bound rose notably.
  // The climber's results before the round: it moves on meanwhile.
  std::optional<Dual> relaxed;
  std::vector<double> prices;
  Labels guess;
  double bound = 0;
  std::vector<std::vector<double>> valueBounds;
  /// The assignments of walkers that search on their own, now and before.
  std::vector<Labels> proposals;
  std::deque<Labels> ended;              ///< The ends of their last lives.
  std::optional<Dual::Reduced> forExact; ///< Set in rounds that try it.
  ExactResult exact;
  bool oneLimit = false; ///< One time at most, and a narrow tree.
  TreeBound tree;
  double proven; ///< Exact search has shown that nothing costs less.
  double exactStep = 0;
  double exactBudget = 3e4;
  double exactWork = 0;
  bool finished = false;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_STAGE_H
