//===- Stage.h - All searches on one reduced model --------------*- C++ -*-===//
//
// Works in rounds. In each, a fixed number of tasks runs independently from
// the same state; their results are joined in a fixed order. So what is found
// depends on the seed and the rounds, not on the threads.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PLAN_SOLVER_STAGE_H
#define HEDDLE_LIB_PLAN_SOLVER_STAGE_H

#include "Ascent.h"
#include "Search.h"

#include <memory>
#include <optional>

namespace heddle::solver {

class Stage {
public:
  /// `Prices` to start from; empty: none.
  Stage(Model Reduced, uint64_t Seed, const std::vector<double> &Prices);

  /// A first look: prices, then one assignment.
  void begin(double Target, const std::function<bool()> &Stop);

  /// One round of all tasks; `Target` is the best cost known, if any.
  void round(double Target, unsigned Threads,
             const std::function<bool()> &Stop);

  /// Starts from `X`, which must be feasible.
  void adopt(const Labels &X);

  const Model &model() const { return M; }
  const CostTables &tables() const { return Tables; }
  const Candidate &best() const { return Best; }
  bool feasible() const { return Best.feasible(); }
  const Ascent &ascent() const { return Climber; }
  double work() const;

private:
  struct Walker {
    Search Engine;
    Candidate Current;
    int Age = 0;
  };
  void walk(size_t Index, const std::function<bool()> &Stop);
  void join();

  Model M;
  CostTables Tables;
  Ascent Climber;
  std::vector<std::unique_ptr<Walker>> Walkers;
  Candidate Best;
  double RoundQuota;
  // What the climber had found before the round; it moves on meanwhile.
  std::vector<double> Prices;
  Labels Guess;
  double Bound = 0;
};

} // namespace heddle::solver

#endif // HEDDLE_LIB_PLAN_SOLVER_STAGE_H
