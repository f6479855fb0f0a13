//===- StagePieces.h - Pipelines judged by few layers -----------*- C++ -*-===//
//
// The programs of a stage take time and memory that are affine in its layers.
// So two pipelines of two stages, compiled with few layers in each, determine
// the stages of any pipeline: the first one, which has the embedding; the last
// one, which has the head; and those in between, which have layers alone. The
// schedule of the real pipeline is then played with these times.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_STAGEPIECES_H
#define HEDDLE_LIB_PLANNER_JUDGE_STAGEPIECES_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Planner/Planner.h"
#include "heddle/Stages/StageSchedule.h"

namespace heddle {

/// The figures of one stage that is alone on its device. All of them are affine
/// in its layers.
struct StagePiece {
  /// Seconds of the passes for one micro-batch. The last stage runs forward and
  /// backward as one program, whose seconds are in `forward`.
  double forward = 0, backward = 0, weights = 0;
  /// Seconds of them in which computation waits for communication.
  double exposed = 0;
  /// Bytes of a micro-batch that stay between passes. `kept`: from the forward
  /// to the backward pass. `keptForWeights`: from the forward pass to the one
  /// for weights. `pending`: from the backward pass to the one for weights.
  double kept = 0, keptForWeights = 0, pending = 0;
  /// Bytes of a micro-batch that go to the next stage and to the one before.
  double sent = 0, returned = 0;
  /// Bytes of gradients that the first and the last stage exchange because they
  /// share a table: sent and received together.
  double exchanged = 0;
  /// Bytes of the device without slots. Arguments and results are those of a
  /// step, plus those of each micro-batch.
  double parameters = 0, optimizerState = 0, gradients = 0, counters = 0;
  double arena = 0, argumentsAndResults = 0, argumentsOfMicroBatch = 0;

  double getSeconds() const { return forward + backward + weights; }
  /// Returns a + factor * b.
  static StagePiece add(const StagePiece &a, const StagePiece &b,
                        double factor);
};

/// A compiled pipeline of two stages with equally many layers.
struct CompiledStages {
  int64_t layers = 1; ///< of each stage
  StagePiece first, last;
  /// Seconds of a step after the last pass and the last transfer: the update.
  double update = 0;
};

/// Measures a pipeline of two stages, of phase `executable`. Emits an error if
/// it cannot be simulated.
mlir::FailureOr<CompiledStages>
measureStages(mlir::ModuleOp module, const Cluster &cluster, int64_t layers);

/// The ratios of a pipeline's figures to those of the compiled ones. They are
/// not 1 if the number of data-parallel devices differs.
struct StageScales {
  double update = 1, optimizerState = 1;
};

/// Programs of few layers do not stand for all.
class FewLayersError
    : public llvm::ErrorInfo<FewLayersError, llvm::StringError> {
public:
  using ErrorInfo::ErrorInfo;
  static char ID;
};

/// Returns a FewLayersError if a part of the memory is negative.
llvm::Error checkExtrapolated(const PlanFigures &figures);

/// Predicts pipelines from two compiled ones, which differ in their layers.
class StageModel {
public:
  StageModel(const CompiledStages &few, const CompiledStages &more)
      : few(few), more(more) {}

  /// Adds a model with the times on the next kind of device of the cluster.
  /// This model itself has the times of the weakest device.
  void addKind(StageModel kind) { kinds.push_back(std::move(kind)); }

  /// Returns this model for a cluster whose groups are in the order `order`
  /// (see Candidate::kinds).
  StageModel orderKinds(llvm::ArrayRef<int64_t> order) const;

  /// Returns the layers of each stage, at least one, such that devices work
  /// about equally long. Their sum is `layers`. The first axis of the topology
  /// has the stages.
  std::vector<int64_t> balance(const Candidate &candidate, int64_t layers,
                               const MeshTopology &topology) const;

  /// Returns what a step takes. `counts` has the layers of each stage. Time is
  /// that of the whole pipeline, memory that of the device that needs most.
  llvm::Expected<PlanFigures> predict(const Candidate &candidate,
                                      llvm::ArrayRef<int64_t> counts,
                                      const MeshTopology &topology,
                                      const StageScales &scales) const;

  /// Returns the seconds of all passes of a micro-batch of a pipeline with
  /// `layers` layers in all.
  double getSeconds(int64_t layers) const;
  /// Returns the seconds of one layer, in the stage in which it takes least.
  /// This and getSeconds() bound a pipeline.
  double getSecondsOfLayer() const;

private:
  StagePiece get(int64_t stage, int64_t numStages, int64_t layers) const;
  /// Returns the least of a figure over the kinds of device.
  double
  getLeast(llvm::function_ref<double(const StageModel &)> getFigure) const;
  /// Returns the seconds of the update of a device with `layers` layers.
  double getUpdate(int64_t layers) const;
  /// Returns the model of the devices of a group. Group -1 is the weakest
  /// device.
  const StageModel &of(int64_t group) const {
    return group < 0 || kinds.empty() ? *this : kinds[group];
  }

  CompiledStages few, more;
  std::vector<StageModel> kinds; ///< by group of the cluster
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_STAGEPIECES_H
