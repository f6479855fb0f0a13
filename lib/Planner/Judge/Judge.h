//===- Judge.h - Candidates compiled and simulated --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_JUDGE_H
#define HEDDLE_LIB_PLANNER_JUDGE_JUDGE_H

#include "SplitOptions.h"
#include "StagePieces.h"
#include "heddle/Planner/Operators.h"
#include "heddle/Planner/Planner.h"
#include "heddle/Simulate/Simulate.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <tuple>

namespace heddle {

/// A plan and the figures of its program.
struct Judgement {
  Plan plan;
  PlanFigures figures;
};

/// Compiles and simulates candidates in a context of its own. Keeps the
/// training steps that it has built, so that candidates of equal micro-batches
/// share one. Only one thread may use it.
class Judge {
public:
  explicit Judge(const PlanRequest &request);
  ~Judge();

  /// Returns a program after autodiff. It belongs to the judge.
  llvm::Expected<mlir::ModuleOp> getTrainingStep(ProgramSize size,
                                                 int64_t microBatches);

  /// Judges the program cut to `layers` layers (nullopt: all), scheduled for
  /// `memory` bytes of a device (nullopt: those of the request).
  llvm::Expected<Judgement> judge(const Candidate &candidate,
                                  std::optional<int64_t> layers,
                                  std::optional<int64_t> memory = {});

  /// Makes the plan of the whole program.
  llvm::Expected<Plan> plan(const Candidate &candidate);

  /// Returns whether programs of few layers stand for the whole one.
  bool extrapolates(const Candidate &candidate) const;
  /// Judges the candidate by two programs of few layers if `extrapolates`, and
  /// by the whole program otherwise, or if the user decides each of the few
  /// layers unlike the further ones. `extrapolates` must be false for a
  /// pipeline. The two programs are first scheduled as if memory were ample. If
  /// the step then takes less than `limit` seconds but more memory than the
  /// device has, the scheduler tries again with less memory.
  llvm::Expected<PlanFigures> extrapolate(const Candidate &candidate,
                                          double limit);
  /// Returns the variant that the schedule `auto` chooses for the memory of the
  /// request, if the candidate leaves its schedule open.
  llvm::Expected<ScheduleVariant> chooseSchedule(const Candidate &candidate);
  /// Returns the operators that the candidate's plan could also run in slices.
  llvm::Expected<std::vector<SplitOption>>
  findSplits(const Candidate &candidate);
  /// Compiles the two pipelines of few layers that stand for the candidate's.
  llvm::Expected<StageModel> measureStages(const Candidate &candidate);
  /// Copies the prices of communication that another judge has learned.
  void learnPrices(const Judge &other) {
    for (const auto &[name, price] : other.prices)
      prices.insert({name, price.withoutPlans()});
  }
  /// Returns how the communication of the candidate is priced, if its operators
  /// were decided one by one.
  std::optional<ExposurePrediction>
  getExposure(const Candidate &candidate) const {
    auto known = prices.find(getPricesKey(candidate));
    return known == prices.end() ? std::nullopt
                                 : std::optional(known->second.prediction);
  }
  /// Returns the seconds of the kernels with which one device alone computes a
  /// micro-batch of the program.
  llvm::Expected<std::vector<double>> measureKernels(ProgramSize size);

private:
  class Messages;
  /// A program of phase `executable`, and its plan.
  struct Compiled {
    mlir::ModuleOp step; ///< the program after autodiff
    Plan plan;
    mlir::OwningOpRef<mlir::ModuleOp> module;
  };
  /// The plan of a program after autodiff whose operators were decided.
  struct Decided {
    mlir::ModuleOp step;
    /// What the plan states beside the candidate's key of prices.
    std::vector<int64_t> stageLayers;
    Plan plan;
    /// The figures with the order of kinds of the cluster, if it was simulated.
    std::optional<PlanFigures> figures;
  };
  /// How communication is priced where operators are decided one by one.
  struct Prices {
    Exposure factors;
    ExposurePrediction prediction;
    /// The seconds of waiting that the solver's last decision predicts.
    double expected = 0;
    /// The micro-batches of the step for which operators are decided.
    int64_t microBatches = 1;
    /// Programs whose operators were decided with these factors.
    llvm::SmallVector<Decided, 2> decided;
    /// Whether the factors are final.
    bool isSettled = false;
    /// The bytes of a device under which operators are decided for programs of
    /// few layers; nullopt: those of the request.
    std::optional<int64_t> limit;
    /// The bytes that the program of few layers needs.
    int64_t fewMemory = 0;

    /// Returns these prices for another candidate or judge, whose programs and
    /// plans are its own.
    Prices withoutPlans() const {
      Prices copy = *this;
      copy.decided.clear();
      return copy;
    }
    const Decided *find(mlir::ModuleOp step, const Candidate &candidate) const {
      const auto *found = llvm::find_if(decided, [&](const Decided &known) {
        return known.step == step && known.stageLayers == candidate.stageLayers;
      });
      return found == decided.end() ? nullptr : found;
    }
  };
  /// Returns a text that candidates share if they share their prices.
  std::string getPricesKey(const Candidate &candidate) const;
  Prices &getPrices(const Candidate &candidate) {
    return prices[getPricesKey(candidate)];
  }
  /// Removes from a standard plan what is decided operator by operator.
  void clearDecided(Plan &plan, const Candidate &candidate,
                    mlir::ModuleOp module) const;
  llvm::Expected<Compiled> compile(const Candidate &candidate, ProgramSize size,
                                   std::optional<int64_t> memory = {});
  /// Extrapolates as extrapolate() for a candidate that keeps as much as its
  /// limit allows.
  llvm::Expected<PlanFigures> extrapolateMixture(const Candidate &candidate);
  /// Extrapolates as extrapolate(), with the operators that are decided now.
  llvm::Expected<PlanFigures> extrapolateOnce(const Candidate &candidate,
                                              double limit);
  /// Decides the operators again, for less memory of the program of few layers,
  /// until all layers fit. Returns the best figures; `all` are those so far.
  llvm::Expected<PlanFigures> decideWithin(const Candidate &candidate,
                                           PlanFigures all, double limit);
  /// Lets a program of more layers have the operators that were decided for the
  /// one of few layers, which may be another pipeline. Programs whose operators
  /// are decided apart do not extrapolate: under one limit, the larger one may
  /// store its variables in smaller parts.
  llvm::Error extendDecisions(const Candidate &few, ProgramSize fewSize,
                              const Candidate &more, ProgramSize moreSize);
  /// Returns whether operators are decided for few layers, and the user decides
  /// something of each of these that does not hold for all layers.
  llvm::Expected<bool> lacksFreeLayer(const Candidate &candidate);
  std::optional<PlanFigures> extrapolateWithin(const Candidate &candidate,
                                               const PlanFigures &few,
                                               const PlanFigures &more,
                                               const PlanFigures &all);
  void complete(Plan &plan, const Candidate &candidate,
                mlir::ModuleOp module) const;
  /// Makes the plan of a candidate for a module after autodiff.
  llvm::Expected<Plan> makePlan(mlir::ModuleOp module,
                                const Candidate &candidate);
  /// Returns the figures of a simulated step of the candidate. `step` is its
  /// program after autodiff.
  PlanFigures getFigures(const Candidate &candidate, mlir::ModuleOp step,
                         const Simulation &simulation) const;
  /// Simulates a step of a compiled program.
  llvm::Expected<Simulation> simulateStep(mlir::ModuleOp module,
                                          const Cluster &cluster);
  /// Replaces the axes of a standard plan's operators and variables by those
  /// for which the solver predicts the least time.
  llvm::Expected<Plan> decideOperators(mlir::ModuleOp module,
                                       const Candidate &candidate,
                                       Plan standard);
  /// Decides operators and simulates the plan in turns, until the plan does not
  /// change. Each decision prices a collective by the part of its time that
  /// earlier simulations waited for. Keeps the prices of the plan that took
  /// least time. `size` is the program to decide and simulate. If it stands for
  /// a step of other micro-batches than the candidate's, `microBatches` is
  /// their number.
  llvm::Error findPrices(const Candidate &candidate, ProgramSize size,
                         int64_t microBatches);
  using Key = std::tuple<int64_t, int64_t, int64_t>;

  const PlanRequest &request;
  /// CompileOptions::recomputeExceeds of the programs that are compiled now.
  bool exceedsLimit = false;
  mlir::MLIRContext context;
  std::unique_ptr<Messages> messages;
  std::map<Key, mlir::OwningOpRef<mlir::ModuleOp>> steps;
  std::map<std::string, Prices> prices; ///< by getPricesKey()
  KnownCosts knownCosts;
  ClusterChoice cluster; ///< that of the request
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_JUDGE_H
