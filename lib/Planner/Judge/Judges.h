//===- Judges.h - Candidates judged on several threads ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_JUDGES_H
#define HEDDLE_LIB_PLANNER_JUDGE_JUDGES_H

#include "Judge.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <limits>

namespace heddle {

/// A candidate to judge.
struct JudgeTask {
  Candidate candidate;
  /// The estimated seconds of its update. The update of another pipeline is
  /// scaled by the ratio of the two estimates.
  double update = 0;
  /// Seconds from which on a candidate is of no interest. If it takes as long
  /// with ample memory, it is not compiled again for the available memory.
  double limit = std::numeric_limits<double>::infinity();
};

/// The judges, one for each thread, and the stages of pipelines that they have
/// compiled. Results do not depend on the number of threads.
class Judges {
public:
  explicit Judges(const PlanRequest &request);

  Judge &first() { return *judges.front(); }

  /// Judges candidates. Sets the layers of the stages of each pipeline, and the
  /// schedules that were left open. Results have the order of the tasks.
  std::vector<llvm::Expected<PlanFigures>>
  judge(llvm::MutableArrayRef<JudgeTask> tasks);

  /// Returns a name that pipelines with equal programs share. Returns "" if the
  /// candidate is no pipeline that is extrapolated. The programs do not depend
  /// on the number of stages and micro-batches, nor on the number of devices
  /// that reduce gradients after the last micro-batch.
  std::string getStagesName(const Candidate &candidate) const;
  /// Predicts a pipeline from the stages of its name, as judge() does. Returns
  /// nullopt if they were not compiled.
  std::optional<PlanFigures> predict(llvm::StringRef name,
                                     JudgeTask task) const;
  /// Returns the stages of that name; null if they were not compiled.
  const StageModel *getStages(llvm::StringRef name) const;

  /// Returns how many candidates or pairs of stages have been compiled.
  int64_t getNumCompiled() const { return numCompiled; }

private:
  struct Known {
    std::optional<StageModel> model;
    std::string error;
    /// The estimated seconds of the update of the compiled pipeline, and the
    /// number of devices among which its optimizer's state is split.
    double update = 0, storageGroup = 1;
  };
  llvm::Expected<PlanFigures> predict(JudgeTask &task,
                                      const Known &stages) const;

  /// Predicts a pipeline with the order of kinds that it has, and decides the
  /// layers of its stages.
  llvm::Expected<PlanFigures> predictOrder(Candidate &candidate,
                                           const StageModel &model,
                                           const StageScales &scales) const;
  /// Judges a candidate with the cluster's order of kinds, and a pipeline with
  /// the other orders, too. Keeps the best one.
  llvm::Expected<PlanFigures> judgeOrders(
      Candidate &candidate,
      llvm::function_ref<llvm::Expected<PlanFigures>(Candidate &)> judge) const;

  const PlanRequest &request;
  std::vector<std::vector<int64_t>> orders; ///< of kinds, by getKindOrders()
  std::vector<std::unique_ptr<Judge>> judges;
  std::map<std::string, Known, std::less<>> stages;
  int64_t numCompiled = 0;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_JUDGES_H
