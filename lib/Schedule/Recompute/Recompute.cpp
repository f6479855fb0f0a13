//===- Recompute.cpp - heddle-recompute -----------------------------------===//

#include "../LiveBytes.h"
#include "JoinedStage.h"
#include "Repeater.h"
#include "Selection.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Cost/Work.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "heddle/Stages/StageSchedule.h"
#include "heddle/Support/Bytes.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace heddle {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "heddle/Schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// The price of keeping a byte, in seconds, that is higher than any
/// recomputation costs: at this price, as few bytes as possible are kept.
static constexpr double kFewestBytes = 1e-6;

static constexpr double kMaxDepth = 1e6;
/// The most bytes that count, so that sums fit into 64 bits.
static constexpr double kMostBytes = 1e18;

namespace {
/// For each segment, the indices of the ops that run again.
using Choice = SmallVector<SmallVector<int32_t>>;

struct Recompute : heddle::impl::RecomputePassBase<Recompute> {
  using Base::Base;

  void runOnOperation() override;

private:
  /// Returns the time of an op that may run again, else nullopt.
  std::optional<double> getSeconds(Operation *op);
  void recompute(func::FuncOp function);
  /// Returns the cheapest choice where each kept byte has a price.
  Choice choose(const ForwardPass &forward, ArrayRef<Segment> segments,
                double secondsPerByte);
  /// Searches for the price of a byte at which the cheapest choice just fits
  /// into `limitBytes`, and returns that choice. Each price gives an optimum:
  /// no choice that keeps as few bytes takes less time. Choices between the
  /// optima of two prices are only tried for equal segments.
  Choice chooseForMemory(func::FuncOp function, const ForwardPass &forward,
                         ArrayRef<Segment> segments);
  /// Writes the choice into the function, and returns the number of new ops.
  int64_t apply(func::FuncOp function, const Choice &choice);
  /// Returns the live bytes that the function would have with the choice
  /// applied.
  int64_t tryChoice(func::FuncOp function, const Choice &choice);
  /// Returns the live bytes of a function. In a pipeline, those of the
  /// micro-batches in flight count, too. If the program stands for a deeper
  /// one, what its layers keep counts more often.
  int64_t getLiveBytes(func::FuncOp function);
  void warnOfMemory(func::FuncOp function, int64_t bytes);
  /// Treats the programs of each stage of a pipeline as one.
  LogicalResult recomputeStages(PipelineAttr pipeline);
  /// Sets the limit and the numbers of micro-batches of a stage.
  void setLimits(const StageSchedule &schedule, StageProgramAttr stage,
                 RanksAttr ranks);

  int64_t limitBytes = 0;
  /// The most micro-batches that a stage has between its forward and its
  /// backward pass, and between that and its pass for weights.
  SmallVector<int64_t> microBatches;
  MeshRef mesh;
  std::optional<MeshTopology> topology;
  Cluster known; ///< the stated cluster, or a uniform one
};
} // namespace

/// Returns whether the op may run once more without a side effect. True of
/// collectives, too.
static bool isRepeatable(Operation *op) {
  return !op->walk([](Operation *inner) {
              return inner->hasTrait<comm::Collective>() ||
                             isMemoryEffectFree(inner) || isa<LoadOp>(inner)
                         ? WalkResult::advance()
                         : WalkResult::interrupt();
            }).wasInterrupted();
}

static bool communicates(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        return inner->hasTrait<comm::Collective>() ? WalkResult::interrupt()
                                                   : WalkResult::advance();
      })
      .wasInterrupted();
}

std::optional<double> Recompute::getSeconds(Operation *op) {
  if (!isRepeatable(op) ||
      (mode == RecomputeMode::Communication && communicates(op)))
    return std::nullopt;
  if (topology && getCollectiveAxes(op))
    return getCollectiveCost(op, mesh.mesh, *topology).seconds;
  Work work;
  if (auto itself = dyn_cast<WorkOpInterface>(op)) {
    work = itself.getWork();
    if (work.flops == 0 && work.bytesRead == 0 && work.bytesWritten == 0)
      return 0;
  } else {
    for (Type type : op->getOperandTypes())
      work.bytesRead += getBytes(type);
    for (Type type : op->getResultTypes())
      work.bytesWritten += getBytes(type);
  }
  Type type = op->getNumOperands() ? op->getOperand(0).getType()
                                   : op->getResult(0).getType();
  return getRooflineSeconds(
      work, getNearProductRate(getElementTypeOrSelf(type), known.device),
      known.device);
}

/// Returns the bytes that the segments of a function keep for its backward
/// pass.
static int64_t getBytesKeptByLayers(func::FuncOp function) {
  ForwardPass forward(function);
  SmallVector<Segment> segments = findSegments(forward, /*isStage=*/false);
  if (segments.empty())
    return 0;
  auto isReadBehind = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *owner = forward.getOwner(user);
      return !forward.contains(owner) &&
             !owner->hasTrait<OpTrait::IsTerminator>();
    });
  };
  llvm::DenseSet<Value> kept;
  ArrayRef<Operation *> ops = forward.getOps();
  for (Operation *op : ops.slice(segments.front().begin,
                                 segments.back().end - segments.front().begin))
    for (Value result : op->getResults()) {
      if (!isReadBehind(result))
        continue;
      // A view lies in its operand.
      while (result.getDefiningOp() && isView(result.getDefiningOp()))
        result = result.getDefiningOp()->getOperand(0);
      kept.insert(result);
    }
  int64_t bytes = 0;
  for (Value value : kept)
    bytes += getBytes(value.getType());
  return bytes;
}

Choice Recompute::choose(const ForwardPass &forward, ArrayRef<Segment> segments,
                         double secondsPerByte) {
  RecomputeCosts costs;
  costs.secondsPerByte = secondsPerByte;
  auto seconds = [&](Operation *op) { return getSeconds(op); };
  costs.getSeconds = seconds;
  costs.repeatsCollectives = whole;
  Choice choice;
  for (Segment segment : segments)
    choice.push_back(selectRecomputed(forward, segment, costs));
  return choice;
}

int64_t Recompute::apply(func::FuncOp function, const Choice &choice) {
  ForwardPass forward(function);
  Repeater repeater(forward, mode != RecomputeMode::Communication);
  for (ArrayRef<int32_t> ops : choice)
    repeater.repeat(ops);
  repeater.finish();
  return repeater.getNumRepeated();
}

int64_t Recompute::tryChoice(func::FuncOp function, const Choice &choice) {
  func::FuncOp trial = function.clone();
  trial.setName((function.getName() + ".trial").str());
  getOperation().push_back(trial);
  apply(trial, choice);
  int64_t bytes = getLiveBytes(trial);
  trial.erase();
  return bytes;
}

int64_t Recompute::getLiveBytes(func::FuncOp function) {
  int64_t bytes = getPeakBytes(function.getBody().front());
  for (auto [border, count] : llvm::zip(getBorders(function), microBatches))
    for (Value value : getKept(function, border))
      bytes += (count - 1) * getBytes(value.getType());
  if (depth > 1)
    bytes += int64_t(std::min(
        kMostBytes, (depth - 1) * double(getBytesKeptByLayers(function))));
  return bytes;
}

/// Says that a function needs more memory than is left for it. A stated limit
/// is not what the device has: programs may fit that exceed it. So only a
/// report tells of it.
void Recompute::warnOfMemory(func::FuncOp function, int64_t bytes) {
  if (memory > 0 && !report)
    return;
  InFlightDiagnostic message =
      memory > 0 ? function.emitRemark() : function.emitWarning();
  message << "@" << function.getName() << " needs " << bytes
          << " bytes beside its variables, though all that can be is computed "
             "again; "
          << limitBytes << (memory > 0 ? " are stated" : " are left");
}

Choice Recompute::chooseForMemory(func::FuncOp function,
                                  const ForwardPass &forward,
                                  ArrayRef<Segment> segments) {
  Choice none(segments.size());
  if (getLiveBytes(function) <= limitBytes)
    return none;
  Choice least = choose(forward, segments, kFewestBytes);
  if (int64_t bytes = tryChoice(function, least); bytes > limitBytes) {
    warnOfMemory(function, bytes);
    return least;
  }
  // Bisects for the least price of a byte at which the program fits, on a
  // logarithmic scale.
  double low = 1e-15, high = kFewestBytes;
  Choice moreKept = none, fewerKept = std::move(least);
  for (int step = 0; step < 12; ++step) {
    double price = std::sqrt(low * high);
    Choice choice = choose(forward, segments, price);
    bool fits = tryChoice(function, choice) <= limitBytes;
    (fits ? high : low) = price;
    (fits ? fewerKept : moreKept) = std::move(choice);
  }
  // A mixture of the two in few layers stands for none of many.
  if (depth > 1)
    return exceeds ? moreKept : fewerKept;
  // Equal segments change their choice at the same price. The choice that keeps
  // fewer bytes is taken for as few of them as possible.
  size_t segmentsThatFit = segments.size(), tooFewSegments = 0;
  auto mix = [&](size_t numFewerKept) {
    Choice choice = moreKept;
    std::copy_n(fewerKept.begin(), numFewerKept, choice.begin());
    return choice;
  };
  while (segmentsThatFit - tooFewSegments > 1) {
    size_t count = (segmentsThatFit + tooFewSegments) / 2;
    bool fits = tryChoice(function, mix(count)) <= limitBytes;
    (fits ? segmentsThatFit : tooFewSegments) = count;
  }
  return mix(segmentsThatFit);
}

void Recompute::recompute(func::FuncOp function) {
  ForwardPass forward(function);
  SmallVector<Segment> segments =
      findSegments(forward, !getSentForward(function).empty());
  if (segments.empty())
    return;
  Choice choice = mode == RecomputeMode::Optimal
                      ? chooseForMemory(function, forward, segments)
                      : choose(forward, segments, kFewestBytes);
  int64_t before = getLiveBytes(function);
  double seconds = 0;
  for (ArrayRef<int32_t> ops : choice)
    for (int32_t op : ops)
      seconds += getSeconds(forward.getOps()[op]).value_or(0);
  int64_t count = apply(function, choice);
  if (depth > 1) {
    auto known = getOperation()->getAttrOfType<IntegerAttr>(kLiveBytesAttrName);
    int64_t live = std::max(getLiveBytes(function), known ? known.getInt() : 0);
    getOperation()->setAttr(kLiveBytesAttrName,
                            Builder(&getContext()).getI64IntegerAttr(live));
  }
  if (report && count > 0)
    function.emitRemark() << "@" << function.getName() << " computes " << count
                          << " of " << forward.getOps().size()
                          << " ops again, in " << segments.size()
                          << " segments; that takes "
                          << llvm::formatv("{0:f3}", seconds * 1e3).str()
                          << " ms by the cost model; before ops are fused, "
                          << getLiveBytes(function)
                          << " bytes are live at most, and " << before
                          << " without";
}

void Recompute::runOnOperation() {
  if (mode == RecomputeMode::None)
    return;
  ModuleOp module = getOperation();
  if (memory < 0 ||
      (mode == RecomputeMode::Optimal && memory == 0 && cluster.isNone())) {
    module.emitError() << "expected the memory of a device, which limits what "
                          "is kept: a cluster (--cluster), or a positive "
                          "number of bytes";
    return signalPassFailure();
  }
  if (!(depth >= 1 && depth <= kMaxDepth)) {
    module.emitError() << "expected a depth from 1 to 1e6, got " << depth;
    return signalPassFailure();
  }
  mesh = getMesh(module);
  known = makeUniformCluster(1);
  if (mesh) {
    FailureOr<ReshardSequences> found =
        ReshardSequences::create(module, mesh, cluster);
    if (failed(found))
      return signalPassFailure();
    topology = found->getTopology();
    known = topology->getCluster();
  } else if (!cluster.isNone()) {
    llvm::Expected<const Cluster &> stated = cluster.load();
    if (!stated) {
      module.emitError() << llvm::toString(stated.takeError());
      return signalPassFailure();
    }
    known = *stated;
  }
  if (auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName)) {
    if (failed(recomputeStages(pipeline)))
      signalPassFailure();
    return;
  }
  limitBytes = memory > 0 ? int64_t(memory) : getFreeBytes(module, known);
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
    if (!function.isExternal() && !function->hasAttr(kKernelAttrName) &&
        function.getBody().hasOneBlock())
      recompute(function);
}

//===----------------------------------------------------------------------===//
// Stages of a pipeline
//===----------------------------------------------------------------------===//

/// Returns the largest number of micro-batches in flight between two kinds of
/// work of a stage: the first is done and the second is not.
static int64_t getMostBetween(const StageSchedule &schedule, int64_t stage,
                              StageWork first, StageWork second) {
  int64_t count = 0, most = 1;
  for (const StageTask &task : schedule.devices[schedule.deviceOf[stage]])
    if (task.stage == stage) {
      count += (task.work == first) - (task.work == second);
      most = std::max(most, count);
    }
  return most;
}

void Recompute::setLimits(const StageSchedule &schedule, StageProgramAttr part,
                          RanksAttr ranks) {
  int64_t stage = part.getStage(), device = schedule.deviceOf[stage];
  limitBytes =
      memory > 0 ? int64_t(memory) : getFreeBytes(getOperation(), known, ranks);
  limitBytes /= llvm::count(schedule.deviceOf, device);
  int64_t pending = getMostBetween(schedule, stage, StageWork::Backward,
                                   StageWork::BackwardWeights);
  // The last stage has both passes in one program.
  if (stage + 1 == schedule.getNumStages())
    microBatches = {pending};
  else
    microBatches = {getMostBetween(schedule, stage, StageWork::Forward,
                                   StageWork::Backward),
                    pending};
}

LogicalResult Recompute::recomputeStages(PipelineAttr pipeline) {
  ModuleOp module = getOperation();
  FailureOr<StageSchedule> schedule =
      getStageSchedule(module, pipeline, mesh.mesh);
  if (failed(schedule))
    return failure();
  llvm::MapVector<std::pair<Attribute, int64_t>, SmallVector<func::FuncOp>>
      stages;
  for (auto function : module.getOps<func::FuncOp>())
    if (auto part =
            function->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
        part && !isOncePerStep(part.getWork()))
      stages[{part.getEntry(), part.getStage()}].push_back(function);
  for (auto &[key, programs] : stages) {
    auto getPart = [](func::FuncOp program) {
      return program->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
    };
    llvm::sort(programs, [&](func::FuncOp a, func::FuncOp b) {
      return getPart(a).getWork() < getPart(b).getWork();
    });
    setLimits(*schedule, getPart(programs.front()),
              programs.front()->getAttrOfType<RanksAttr>(kRanksAttrName));
    if (programs.size() == 1) {
      recompute(programs.front());
      continue;
    }
    for (func::FuncOp program : programs)
      if (failed(verifyPorts(program)))
        return failure();
    JoinedStage stage(programs);
    recompute(stage.getFunction());
    stage.part();
  }
  return success();
}
