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
  /// `From`: what the bound starts from.
  Stage(Model Reduced, uint64_t Seed, const DualState &From);

  /// A first look: prices, then one assignment; where one time binds and the
  /// tree decomposition is narrow, all there is to know. `Known` as below.
  void begin(double Target, Cost Known, const std::function<bool()> &Stop);

  /// One round of all tasks. `Target`: what the bound aims at; `Known`: the
  /// best cost known, `InfiniteCost` if there is none.
  void round(double Target, Cost Known, unsigned Threads,
             const std::function<bool()> &Stop);

  /// Whether it is proven that nothing is better than `best()`, or than what
  /// was known before.
  bool finished() const { return Finished; }

  /// Takes `X` over if it is better than the best.
  void adopt(const Labels &X);

  const Model &model() const { return M; }
  const Candidate &best() const { return Best; }
  /// What most of the search works on; see `Exploited`.
  const Candidate &exploited() const { return Exploited; }
  bool feasible() const { return Best.feasible(); }
  const Ascent &ascent() const { return Climber; }
  /// The best bound that any method has found.
  double bound() const;
  double work() const;

private:
  struct Walker {
    Search Engine;
    Candidate Current;
    int Age = 0;          ///< Rounds of those that exploit.
    int Left = 0;         ///< Rounds until it sets out again.
    int Unpin = 0;        ///< When so many are left, it may change everything.
    Random Luck{0};       ///< Of setting out and of searches among few values,
    double ExtraWork = 0; ///< and their work.
  };
  Labels sample(Random &R) const;
  std::vector<std::vector<int32_t>>
  valuesToTry(size_t Index, Walker &W, const std::function<bool()> &Stop);
  void walkRestricted(size_t Index, const std::function<bool()> &Stop);
  void setOut(Walker &W, bool MayPin, const std::function<bool()> &Stop);
  bool pinOther(Walker &W);
  double unusedShareOfGap() const;
  void walk(size_t Index, bool Afresh, const std::function<bool()> &Stop);
  void join(size_t First, size_t End);
  void remember(const Candidate &C);
  void chooseExploited(Cost Before);
  bool exactIsDue() const;
  ExactResult searchBelow(Cost Below, double MaxWork,
                          const std::function<bool()> &Stop) const;
  void takeExact();
  void prepareTree();
  double exactWeight() const;
  void constructOneLimit(const std::function<bool()> &Stop);
  void tryExact(Cost Known, const std::function<bool()> &Stop);

  Model M;
  TablePool Pool;
  CostTables Tables;
  Ascent Climber;
  std::vector<std::unique_ptr<Walker>> Walkers;
  Candidate Best;
  /// What the exploiting walkers work on: the best, or in turn one that set out
  /// anew, knowing nothing of the best.
  Candidate Exploited;
  bool Anew = false;
  bool SettingOut = false; ///< It does so in this round.
  int RoundsStalled = 0;   ///< Since it became notably better.
  double RoundQuota;       ///< Of a walker, in table entries.
  double ClimbQuota;
  double LastBound = 0;
  int RoundsAtRest = 0; ///< Since the bound rose notably.
  // What the climber had found before the round; it moves on meanwhile.
  std::optional<Dual> Relaxed;
  std::vector<double> Prices;
  Labels Guess;
  double Bound = 0;
  std::vector<std::vector<double>> ValueBounds;
  /// Of the walkers that go their own ways, now and before.
  std::vector<Labels> Proposals;
  std::deque<Labels> Ended;              ///< What their last lives came to.
  std::optional<Dual::Reduced> ForExact; ///< Set in rounds that try it.
  ExactResult Exact;
  bool OneLimit = false; ///< `solveOneLimit` can be used.
  TreeBound Tree;
  double Proven; ///< By exact search: nothing costs less.
  double ExactStep = 0;
  double ExactBudget = 3e4;
  double ExactWork = 0;
  bool Finished = false;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_STAGE_H
