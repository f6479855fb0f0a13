//===- Planner.h - The best plan for a program on a cluster -----*- C++ -*-===//
//
// Searches for the plan with which a training step takes the least time on the
// devices of a cluster and fits their memory. A candidate is a mesh with a
// standard plan and a schedule. Lower bounds leave most candidates untried.
// Others are compiled with few layers and simulated; the winner is compiled and
// simulated as a whole. Nothing is printed; an observer hears of progress.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANNER_PLANNER_H
#define HEDDLE_PLANNER_PLANNER_H

#include "heddle/Lower/Artifact.h"
#include "heddle/Pipelines/ChooseSchedule.h"
#include "heddle/Planner/Blocks.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

//===----------------------------------------------------------------------===//
// What to plan
//===----------------------------------------------------------------------===//

struct ProgramSize {
  int64_t rows = 1; ///< of a micro-batch, of all devices together
  /// The number of layers; nullopt: as many as the program has.
  std::optional<int64_t> layers;
};

/// Makes a program of a size. It is called several times, from several threads,
/// each with a context of its own. Errors are diagnostics on the context.
using ProgramMaker =
    std::function<mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>(
        mlir::MLIRContext &, const ProgramSize &)>;

struct ProgramToPlan {
  ProgramMaker make;
  /// The dialects of the program.
  const mlir::DialectRegistry *dialects = nullptr;
  /// The rows of one step, of all devices and micro-batches together.
  int64_t rows = 1;
  /// The positions of a row, if it has any. Recorded in the plan's prediction.
  std::optional<int64_t> sequence;
  /// The layers of the program, if it can be made with fewer.
  std::optional<int64_t> layers;
  /// The depth of a program that has one size: its equal layers, or as many
  /// layers of a hundred ops as it has ops for.
  int64_t depth = 1;
  /// The equal layers of a model that has one size. 0: it is no model, so it
  /// cannot be cut into the stages of a pipeline.
  int64_t equalLayers = 0;
  /// The rows of a micro-batch, if the program has no other number of them.
  std::optional<int64_t> microBatchRows;

  /// Returns the most stages of a pipeline: each has a layer.
  int64_t getMostStages() const { return layers.value_or(equalLayers); }
};

/// What the user has decided. The planner chooses everything else.
struct PlanPins {
  std::optional<int64_t> data, tensor, context, pipeline;
  std::optional<int64_t> zeroLevel, microBatches, subBatches;
  std::optional<bool> sequence;
  /// How attention sees a sequence that is split over cp. Candidates without cp
  /// are left out.
  std::optional<ContextParallelism> attention;
  std::optional<RecomputeMode> recompute;
  std::optional<Overlap> overlap;
  /// The schedule of the stages that a part of a plan states.
  std::optional<PipelineSchedule> schedule;
  /// Globs of operators that every device of a tensor parallel group computes
  /// whole.
  std::vector<std::string> replicated;

  /// Returns whether a pin can exclude candidates.
  bool hasAny() const {
    return data || tensor || context || pipeline || zeroLevel || microBatches ||
           subBatches || sequence || attention || recompute || overlap ||
           schedule;
  }
};

/// Adds a pin in the form of the command line: "tp=4", "recompute=layer",
/// "h.*.mlp*=replicated". The error says what was expected.
/// A key that has another value already is an error.
llvm::Error parsePin(llvm::StringRef text, PlanPins &pins);

/// Adds what a part of a plan states of the mesh and the schedule as pins.
llvm::Error pinStated(const Plan &stated, PlanPins &pins);

struct PlanRequest {
  ProgramToPlan program;
  /// The type of products and the optimizer. The planner chooses the number of
  /// micro-batches.
  TrainingOptions training;
  Cluster cluster;
  int64_t devices = 1; ///< at most those of the cluster
  int64_t memory = 0;  ///< bytes that each device may use
  PlanPins pins;
  /// A part of a plan, whose pins pinStated() has added. Its entries of
  /// operators and variables are in every plan.
  std::optional<Plan> stated;
  /// If there is a profile of blocks, its mesh is the only one, and only the
  /// strategies of blocks are decided, by their measured costs. `stated` is
  /// empty then.
  std::optional<BlockProfile> blocks;
  /// The most candidates that are compiled. Once something fits, those that
  /// turn out to need too much memory count half. It is a limit on work and not
  /// on time, so that a request always has the same answer.
  int64_t mostCompiled = 32;
  /// Whether the winner is compiled with all layers. Otherwise its figures are
  /// extrapolated from few.
  bool compilesWinner = true;
  /// Whether a pipeline may have the kinds of device in another order than the
  /// cluster.
  bool ordersKinds = false;
  /// When the programs of candidates are verified.
  Verification verification = Verification::LastPhase;
  /// The answer does not depend on the number of threads.
  unsigned threads = 1;

  /// Plans for the first `count` devices of the cluster only. The memory that
  /// each device may use becomes that of these devices.
  void useFirst(int64_t count) {
    Cluster used = cluster.getFirst(count);
    memory += used.device.memory - cluster.device.memory;
    cluster = std::move(used);
    devices = count;
  }
};

//===----------------------------------------------------------------------===//
// What the search considers
//===----------------------------------------------------------------------===//

/// A point of the search space.
struct Candidate {
  DefaultMesh mesh;
  int64_t zeroLevel = 0;
  int64_t microBatches = 1;
  int64_t subBatches = 1;
  RecomputeMode recompute = RecomputeMode::None;
  /// Plan::recomputeBytes; 0: the free memory of a device. For a deep program,
  /// the search finds it.
  int64_t recomputeBytes = 0;
  Overlap overlap = Overlap::None;
  /// Whether the axes of each operator and variable are decided, as a problem
  /// of the solver, instead of those of the standard plan.
  bool decidesOperators = false;
  /// Whether the schedule `auto` chooses the sub-batches, the recomputation and
  /// the exchange of sums, for the available memory. Then `subBatches` and
  /// `recompute` hold the pinned values, or those with the least work.
  bool leavesSchedule = false;
  /// The choices of the schedule `auto`. The judgement of the candidate sets
  /// them.
  std::optional<ScheduleVariant> schedule = std::nullopt;
  /// The layers of each stage of a pipeline. Empty: stages of about equal work.
  /// The judgement of a candidate decides them.
  std::vector<int64_t> stageLayers = {};
  /// The groups of the cluster's devices (indices) in the order in which the
  /// stages have them. Empty: the order of the cluster. The judgement of a
  /// pipeline decides it.
  std::vector<int64_t> kinds = {};
  /// The operators that run in slices, besides those that the user states.
  std::vector<PlanSplit> splits = {};

  /// Returns the chosen variant of the schedule, or else the stated one.
  ScheduleVariant getSchedule() const;
  /// Returns the number of stages of the pipeline; 1 if there is none.
  int64_t getNumStages() const;
  /// Returns the command line's form, such as
  /// "--mesh dp=2,tp=4 --zero 1 --micro-batches 4".
  std::string getName() const;
  /// Returns the name with everything that it leaves out, so that two
  /// candidates have the same key only if they are the same.
  std::string getKey() const;
};

/// Returns the cluster with its groups of devices in the order `kinds` (see
/// Candidate::kinds). If it is another order, the name says so.
Cluster orderKinds(const Cluster &cluster, const std::vector<int64_t> &kinds);

/// The predicted and simulated waiting of a candidate whose operators were
/// decided one by one. The solver's price of a kind of collective is the part
/// of its time for which a simulation waits. The seconds are of a program of
/// few layers.
struct ExposurePrediction {
  double predicted = 0; ///< seconds of waiting, by the prices
  double simulated = 0; ///< by the simulation of the decided plan
  double step = 0;      ///< simulated
  int64_t rounds = 0;   ///< of deciding and simulating
  /// Whether the last round made the same decisions as the one before.
  bool isFixed = false;
  /// Returns the error of the prices as a part of the step.
  double getError() const {
    return step > 0 ? (predicted - simulated) / step : 0;
  }
};

/// Bytes of the arena at the time when most bytes are in use.
struct PeakShare {
  std::string glob; ///< of the operator that made the values, and its equals
  int64_t bytes = 0;
};

/// The time and memory that a program with a plan needs.
struct PlanFigures {
  double seconds = 0; ///< of a step
  /// The part of the step in which computation waits for communication.
  double exposed = 0;
  DeviceMemoryPlan memory; ///< bytes of each device
  /// If devices differ, `memory` is that of the device with the least memory
  /// left. `extraMemory` is the bytes by which this device is larger than the
  /// smallest one.
  int64_t extraMemory = 0;
  /// Returns the seconds in which no device waits for communication.
  double getComputing() const { return seconds - exposed; }
  /// Returns the bytes that the smallest device must have.
  int64_t getNeededMemory() const { return memory.total() - extraMemory; }
  /// The most bytes in use at a time. The arena may be larger, because values
  /// leave gaps.
  int64_t inUse = 0;
  /// The most bytes in use while the last layer computes activations, from its
  /// forward to its backward pass: what all layers keep is in use then. 0:
  /// unknown.
  int64_t atLastLayer = 0;
  /// If few layers stand for a program of all layers that keeps as much as its
  /// limit allows: the bytes of live tensors of all layers, before ops are
  /// fused.
  int64_t liveBytes = 0;
  /// The kinds of device among ranks that do the same; the weakest decides.
  std::vector<std::string> mixed = {};
  /// The operators whose values are alive at the peak of the memory, the one
  /// with the most bytes first. If few layers stand for all, this is the peak
  /// of the program of few layers. It is unknown, and empty, if two pipelines
  /// of few layers stand for a pipeline.
  std::vector<PeakShare> peak = {};
  /// Set if the operators were decided one by one.
  std::optional<ExposurePrediction> exposure = {};
};

//===----------------------------------------------------------------------===//
// The answer
//===----------------------------------------------------------------------===//

/// A candidate that was compiled and simulated.
struct JudgedCandidate {
  Candidate candidate;
  double bound = 0; ///< lower bound of the seconds, by counting
  /// Extrapolated from few layers, unless the program has no more.
  PlanFigures figures;
  bool fits = false;
  /// Whether the figures are those of all layers.
  bool isWhole = false;
  /// Why the candidate could not be compiled or simulated; empty if it was.
  std::string error;
  /// Whether the error is that few layers do not stand for all.
  bool isUnknown = false;
};

/// The candidates that were never compiled for one reason, or the meshes and
/// batches of which no candidate was made.
struct SkippedCandidates {
  std::string reason;
  int64_t count = 0;
  /// Whether they count in PlanReport::candidates, the number of skipped and
  /// judged candidates.
  bool isCandidate = false;
};

struct PlanReport {
  /// The best plan, with its predictions; nullopt if nothing fits.
  std::optional<Plan> plan;
  Candidate winner;
  PlanFigures figures; ///< of the winner
  /// A lower bound of the winner's seconds if no device repeated the work of
  /// another one.
  double divided = 0;
  /// Whether the figures are those of few layers, extrapolated.
  bool isExtrapolated = false;
  /// No candidate of the search space takes less: the least of the lower bounds
  /// of candidates that were not judged and the time of the plan. This is a
  /// proof only if `boundPredictions` is 0. Judged ones count by their
  /// simulated times, even if extrapolated from few layers, unless `isUnknown`.
  /// Candidates that run further operators in slices count only if judged.
  double bound = 0;
  /// The candidates whose lower bound is below `bound`, and which programs of
  /// few layers predict to take at least `bound`, or not to fit. If there are
  /// any, `bound` is a prediction itself.
  int64_t boundPredictions = 0;
  int64_t candidates = 0; ///< judged or left out
  int64_t compiled = 0;   ///< programs of few layers; some stand for several
  std::vector<JudgedCandidate> judged; ///< in the order of their judgement
  std::vector<SkippedCandidates> skipped;
  /// With a profile of blocks: what was chosen for each, in their order.
  std::vector<BlockChoice> blocks;
  /// True if the observer ended the search.
  bool isInterrupted = false;
  /// Whether PlanRequest::mostCompiled is used up and candidates are left that
  /// may fit. Then the number of those that would have been compiled next.
  bool isWorkUsedUp = false;
  int64_t untried = 0;
  /// If nothing fits: the candidate that needs least memory. `figures` has its
  /// memory, and `consumers` names the largest parts.
  std::vector<std::pair<std::string, int64_t>> consumers;
  /// If nothing fits: a lower bound on the memory of all candidates of the
  /// search space, with any operators in slices. It is below the least memory
  /// of a judged candidate if the limit of work ended the search before all
  /// candidates were judged, or if further slices might need less.
  int64_t memoryBound = 0;
  /// If nothing fits: the candidates that may fit by their lower bounds, and
  /// which programs of few layers predict not to fit.
  int64_t infeasiblePredictions = 0;
};

struct PlanProgress {
  int64_t candidates = 0, judged = 0;
  const JudgedCandidate *last = nullptr; ///< judged just now
  const JudgedCandidate *best = nullptr; ///< of those that fit
  double bound = 0;                      ///< as PlanReport::bound
};

class PlanObserver {
public:
  virtual ~PlanObserver() = default;
  virtual void progress(const PlanProgress &progress) {}
  /// A search for a number of rows of a step begins. Called only if the number
  /// of rows is open.
  virtual void plansBatch(int64_t rows) {}
  /// The candidate is about to be compiled with all layers.
  virtual void compilesWhole(const Candidate &candidate) {}
  /// Returns whether to end the search with the best plan so far.
  virtual bool isInterrupted() { return false; }
};

/// Searches for the best plan. The error names the wrong part of the request,
/// or says why the program cannot be compiled at all. It is no error if no plan
/// fits.
llvm::Expected<PlanReport> findPlan(const PlanRequest &request,
                                    PlanObserver &observer);

/// Takes an answer, and returns the next, smaller limit of memory; nullopt ends
/// the search.
using NextMemory =
    llvm::function_ref<std::optional<int64_t>(PlanReport &report)>;

/// Searches for the best plans of several limits of memory, from
/// `request.memory` downwards. A candidate is judged once for all of them, with
/// the memory of the request. If the lower bounds show that nothing fits into
/// it, nothing is judged: the report has `memoryBound` alone. An interrupted
/// search ends.
llvm::Error findPlans(const PlanRequest &request, PlanObserver &observer,
                      NextMemory next);

} // namespace heddle

#endif // HEDDLE_PLANNER_PLANNER_H
