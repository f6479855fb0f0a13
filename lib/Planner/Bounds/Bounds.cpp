//===- Bounds.cpp - Bounds of a candidate ---------------------------------===//

#include "Bounds.h"
#include "Extrapolation.h"
#include "MeshAxes.h"
#include "heddle/Stages/StageSchedule.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace heddle;

namespace {

/// The fraction of the bytes of unfused ops that fused kernels still move. An
/// estimate from the programs of gpt2 and llama.
constexpr double kFusedPart = 0.35;
/// The part of the forward pass that is computed again. An estimate.
constexpr double kRepeated = 0.8;

} // namespace

BoundModel::BoundModel(const PlanRequest &request, CountModel counts)
    : request(request), device(request.cluster.getStrongest()), model(counts) {}

llvm::Expected<MeshTopology &>
BoundModel::getTopology(const DefaultMesh &mesh) {
  MeshAxes axes(mesh);
  auto known = topologies.find(axes.sizes);
  if (known == topologies.end()) {
    llvm::Expected<MeshTopology> topology =
        MeshTopology::create(request.cluster, axes.sizes);
    if (!topology)
      return topology.takeError();
    known = topologies.emplace(axes.sizes, std::move(*topology)).first;
  }
  return known->second;
}

const BoundModel::StepCounts &BoundModel::getCounts(int64_t microBatches) {
  auto [known, isNew] = counts.try_emplace(microBatches);
  double rows = double(request.program.rows) / double(microBatches);
  if (isNew) {
    double layers = double(request.program.layers.value_or(1));
    StepCounts &step = known->second;
    step.all = model.at(rows, layers);
    step.layer = model.ofLayer(rows);
    step.fixed = model.at(0, layers).computing;
    step.fixedOfLayer = model.ofLayer(0).computing;
    step.computing = step.all.computing - step.fixed;
    step.computingOfLayer = step.layer.computing - step.fixedOfLayer;
    step.fixed = std::max(step.fixed, 0.0);
    step.fixedOfLayer = std::max(step.fixedOfLayer, 0.0);
  }
  return known->second;
}

namespace {

/// The passes of a pipeline, by the seconds of a micro-batch on one device.
struct PipelineWork {
  double stages, chunks, microBatches, layers;
  double all = 0;   ///< of the whole program on one device
  double layer = 0; ///< of one layer
  double head = 0;  ///< of the products behind the last layer
  /// Seconds of a layer's exchanges behind the last pass of its device.
  double update = 0;
  /// The part of a stage's time in which other stages wait while the pipeline
  /// fills and drains: all of it, or the forward pass if the pass for weights
  /// fills the rest.
  double waiting = 1;
  /// Whether the planner decides the layers of each stage.
  bool isBalanced = true;
  /// Whether the device of the first stage has the last one, too.
  bool endsOnFirst = false;

  /// Returns a lower bound of every pipeline.
  double getBound() const {
    // A bound for any stages: the times T_s with m T_s + T_0 + ... + T_{s-1} =
    // C for each stage s add up to `all`.
    double least = (microBatches * all + layers * update) / stages;
    if (chunks == 1 && waiting == 1)
      least =
          std::max(least, all / (1 - std::pow(1 - 1 / microBatches, stages)));
    if (!isBalanced)
      return least;
    // Stages have whole layers, at least one each. The last stage may have any
    // number of them.
    double uneven = std::numeric_limits<double>::infinity();
    for (double last = chunks; last <= layers - (stages - 1) * chunks; ++last) {
      // More layers on the last device do not shorten its own work.
      if (getBusyOfLast(last) >= uneven)
        break;
      uneven = std::min(uneven, getBoundOf(last));
    }
    return std::max(least, uneven);
  }

private:
  /// Returns the seconds of the work on `count` layers.
  double getBusy(double count) const {
    return count * (microBatches * layer + update);
  }
  /// Returns the seconds of the work of the last device, if it has `last`
  /// layers.
  double getBusyOfLast(double last) const {
    return getBusy(last) + microBatches * head;
  }
  /// Returns a lower bound of the pipelines in which the device of the last
  /// stage has `last` layers. A device waits for one chunk of each device
  /// before it, at the beginning and at the end.
  double getBoundOf(double last) const {
    double others = layers - last;
    // Some other device has the average of their layers or more. If none has
    // more, and the layers divide evenly, the last of them waits for equal
    // ones.
    double most = std::ceil(others / (stages - 1));
    double alone = getBusyOfLast(last);
    double busiest = std::max(getBusy(most), alone);
    if (most * (stages - 1) == others)
      busiest = std::max(busiest, getBusy(most) +
                                      getFill(stages - 2, (stages - 2) * most));
    // The first device ends after the last one, and then exchanges its own
    // gradients. If the pass for weights fills the pipeline, either may end
    // last.
    double ofFirst = std::max(chunks, others - (stages - 2) * most);
    if (waiting < 1)
      ofFirst = last;
    if (!endsOnFirst)
      busiest =
          std::max(busiest, microBatches * (last * layer + head) +
                                getFill(stages - 1, others) + ofFirst * update);
    // A single other device has exactly `most` layers.
    return stages == 2 ? busiest
                       : std::min(busiest, std::max(getBusy(most + 1), alone));
  }
  /// Returns the seconds of the first chunks of devices that have `count`
  /// layers together. Those of one device differ by one layer at most.
  double getFill(double devices, double count) const {
    return std::max(0.0, count - devices * (chunks - 1)) / chunks * waiting *
           layer;
  }

public:
  /// Returns the estimated time. The last stage has the head, and as many
  /// layers as balance it.
  double getEstimate() const {
    double rest = std::max(0.0, all - layers * layer);
    double busiest = std::numeric_limits<double>::infinity();
    // The layers of a program of one size are not counted.
    if (layer == 0)
      busiest = all / stages;
    for (double last = 1; last <= layers - stages + 1; ++last)
      busiest = std::min(
          busiest, std::max(last * layer + rest,
                            std::ceil((layers - last) / (stages - 1)) * layer));
    return busiest * microBatches +
           (stages - 1) / chunks * waiting * all / stages;
  }
};

} // namespace

/// Returns a lower bound of the seconds of a layer's products that the
/// candidate computes again, on one device. `Optimal` recomputation need not
/// repeat anything if the memory suffices. `state` has the bytes of variables.
double BoundModel::getRepeated(const Candidate &candidate,
                               const MeshTopology &topology,
                               const StepCounts &step, double state) const {
  if (candidate.recompute != RecomputeMode::Layer &&
      candidate.recompute != RecomputeMode::Communication)
    return 0;
  // The counts know which products the standard plan follows with a sum. The
  // results of these sums stay. With other shardings, other results may stay.
  bool isStandard = !candidate.decidesOperators &&
                    request.pins.replicated.empty() && !statesSplits();
  if (candidate.recompute == RecomputeMode::Communication && !isStandard)
    return 0;
  if (candidate.mesh.context == 1)
    return step.layer.repeatedProducts;
  // Gathers and exchanges are communication, which may stay. Then attention and
  // its operands need not be computed again.
  if (candidate.mesh.attention != ContextParallelism::Ring)
    return candidate.recompute == RecomputeMode::Layer
               ? step.layer.repeatedProducts
               : step.layer.repeatedProducts - step.layer.repeatedAttention -
                     step.layer.repeatedBefore;
  // Recomputation may mistake the steps of a ring for layers. Then all other
  // values stay, unless they exceed the memory. The values that a ring has
  // received may always stay, and so may the attention that is computed from
  // them.
  auto withoutRing = [](ProgramCounts counts) {
    counts.keptInParts -= counts.keptOfAttention;
    return counts;
  };
  double kept = getKept(candidate, topology, withoutRing(step.all),
                        withoutRing(step.layer));
  int64_t mostMemory =
      request.memory + device.memory - request.cluster.device.memory;
  bool fits = state + kept <= double(mostMemory);
  return isStandard && !fits
             ? step.layer.repeatedProducts - step.layer.repeatedAttention
             : 0;
}

bool BoundModel::statesSplits() const {
  return request.stated &&
         (!request.stated->operators.empty() || !request.stated->pins.empty() ||
          !request.stated->splits.empty());
}

bool BoundModel::statesStorage() const {
  return request.stated && !request.stated->storage.empty();
}

/// Returns a lower bound of the layers of a pipeline's first stage. A slow
/// device may have only one layer. Stages without a decided number of layers
/// may have any.
double BoundModel::getLeastLayers(const Candidate &candidate) const {
  if (!extrapolates(request, candidate))
    return 0;
  return request.cluster.groups.empty()
             ? std::floor(double(*request.program.layers) /
                          double(candidate.mesh.pipeline))
             : 1;
}

/// Returns whether each data-parallel device repeats, in each micro-batch, all
/// work on weights and gradients that does not grow with the rows. If gradients
/// are stored in parts, so are their sums. A step of one micro-batch sums no
/// gradients up.
bool BoundModel::repeatsFixed(const Candidate &candidate) const {
  return candidate.microBatches > 1 && candidate.zeroLevel <= 1 &&
         !candidate.decidesOperators && !statesSplits() && !statesStorage();
}

llvm::Expected<CandidateBounds>
BoundModel::rate(const Candidate &candidate, const SimulatedPasses *passes) {
  llvm::Expected<MeshTopology &> topology = getTopology(candidate.mesh);
  if (!topology)
    return topology.takeError();
  CandidateBounds bounds = rate(candidate, *topology, passes);
  if (!candidate.leavesSchedule && !fillsMemory(request, candidate))
    return bounds;
  // The bound is that of the choice with the least work, because any other
  // choice adds launches, gathers or work. With parts of a batch or
  // recomputation, nothing may be kept.
  bounds.kept = 0;
  CandidateBounds likely = candidate.leavesSchedule
                               ? estimateOpen(candidate, *topology)
                               : estimateFilling(candidate, *topology);
  bounds.estimate = std::max(bounds.seconds, likely.estimate);
  bounds.update = likely.update;
  bounds.arena = likely.arena;
  return bounds;
}

/// Returns the one that is expected to be better: faster if it fits, or smaller
/// if neither does.
const CandidateBounds &BoundModel::getBetter(const CandidateBounds &a,
                                             const CandidateBounds &b) const {
  auto getKey = [&](const CandidateBounds &of) {
    bool fits = of.state + of.arena <= double(request.memory);
    return std::pair(!fits, fits ? of.estimate : of.arena);
  };
  return getKey(b) < getKey(a) ? b : a;
}

/// Estimates a candidate that leaves its schedule open. Takes the estimate of
/// the fastest choice that is expected to fit, or of the smallest choice if
/// none is.
CandidateBounds BoundModel::estimateOpen(const Candidate &candidate,
                                         const MeshTopology &topology) {
  std::optional<CandidateBounds> best;
  for (int64_t parts : {1, 2, 4}) {
    Candidate choice = candidate;
    choice.subBatches = request.pins.subBatches.value_or(parts);
    CandidateBounds next = request.pins.recompute
                               ? rate(choice, topology, /*passes=*/nullptr)
                               : estimateFilling(choice, topology);
    best = best ? getBetter(*best, next) : next;
  }
  return *best;
}

/// Estimates a candidate that computes only as much again as the memory
/// requires.
CandidateBounds BoundModel::estimateFilling(Candidate candidate,
                                            const MeshTopology &topology) {
  candidate.recompute = RecomputeMode::None;
  CandidateBounds kept = rate(candidate, topology, /*passes=*/nullptr);
  CandidateBounds best = kept;
  double room = double(request.memory) - kept.state;
  for (RecomputeMode mode :
       {RecomputeMode::Communication, RecomputeMode::Layer}) {
    candidate.recompute = mode;
    CandidateBounds next = rate(candidate, topology, /*passes=*/nullptr);
    if (next.arena <= room && room < kept.arena) {
      double part = (kept.arena - room) / (kept.arena - next.arena);
      next.estimate = kept.estimate + part * (next.estimate - kept.estimate);
      next.arena = room;
    }
    best = getBetter(best, next);
  }
  return best;
}

CandidateBounds BoundModel::rate(const Candidate &candidate,
                                 const MeshTopology &topology,
                                 const SimulatedPasses *passes) {
  // The stages of a pipeline have equal parts of the program.
  auto stages = double(candidate.mesh.pipeline);
  const StepCounts &step = getCounts(candidate.microBatches);
  ProgramCounts one = ProgramCounts::add({}, step.all, 1 / stages);
  MeshAxes axes(candidate.mesh);
  double micro = double(candidate.microBatches);
  double devices = double(request.devices) / stages; // of a stage
  double data = double(topology.getSize(axes.data));
  double context = double(topology.getSize(axes.context));
  double tensor = double(topology.getSize(axes.tensor));
  double group = double(topology.getSize(axes.storage));
  double part = 1 / (data * context); // of the tokens
  auto stored = [&](int64_t level) {
    return tensor * (candidate.zeroLevel >= level ? group : 1);
  };
  // Variables that are decided one by one, or stated, may be stored in more
  // parts.
  bool isStandard =
      !candidate.decidesOperators && !statesSplits() && !statesStorage();
  auto storedAtMost = [&](int64_t level) {
    return isStandard ? stored(level) : devices;
  };
  CandidateBounds result;

  // Memory. Gradients of one micro-batch lie in the arena, until their norm is
  // known.
  result.state = one.parameters / storedAtMost(3) +
                 one.optimizerState / storedAtMost(1) +
                 (micro > 1 ? one.gradients / storedAtMost(2) : 0);
  // Tables of positions may be split with the sequence.
  if (context > 1 && one.parameters > 0)
    result.state *= one.weights / one.parameters;
  double split = candidate.mesh.sequence ? 1 / tensor : 0.35 + 0.65 / tensor;
  double wholeGradient = step.all.largestOfParameters / tensor;
  result.arena =
      estimateArena(candidate, step, part * split, part / tensor) +
      (micro > 1 ? wholeGradient
                 : std::max(wholeGradient, one.gradients / stored(1))) +
      estimateUneven(candidate, step) * result.state;
  if (candidate.recompute == RecomputeMode::None)
    result.kept = getKept(candidate, topology, step.all, step.layer);

  // Computation.
  double repeated = candidate.recompute == RecomputeMode::None ? 0 : kRepeated;
  double launches =
      micro * one.numProducts * double(candidate.subBatches) * device.launch;
  double products = micro * one.products / devices + launches;
  double updateBytes =
      micro > 1 ? one.updateBytes : one.updateBytes - 2 * one.gradients;
  double update =
      std::max(updateBytes, 0.0) / stored(1) / device.getMemoryRate();
  double accumulation =
      micro > 1 ? micro * 2 * one.gradients / tensor / device.getMemoryRate()
                : 0;
  double others = micro * one.otherBytes * kFusedPart * part * split /
                  device.getMemoryRate();
  bool isPipeline = candidate.mesh.pipeline > 1;
  PipelineWork pipeline{stages, double(candidate.getNumStages()) / stages,
                        micro, double(request.program.layers.value_or(1))};
  if (splitsBackward(candidate.mesh.schedule) && one.products > 0)
    pipeline.waiting = one.forwardProducts / one.products;
  // The seconds of a micro-batch on the devices of one stage.
  bool isRepeated = repeatsFixed(candidate);
  auto getSeconds = [&](const ProgramCounts &counts, double computing,
                        double fixed) {
    // Each part of a batch launches what grows with the rows.
    double parts = double(candidate.subBatches);
    double launched = std::max(
        counts.launches +
            (parts - 1) * std::min(counts.growingLaunches, counts.launches),
        counts.numProducts * parts * device.launch);
    double least = std::max(counts.products, computing) / devices + launched;
    // Tensor parallelism splits the rest of the fixed work.
    return isRepeated
               ? std::max(least,
                          computing / devices + launched +
                              std::max(0.0, fixed - counts.launches) / tensor)
               : least;
  };
  // Tables of positions may be split with the sequence, so only layers count.
  pipeline.all = getSeconds(
      step.all, step.computing,
      context > 1 ? std::min(step.fixed, pipeline.layers * step.fixedOfLayer)
                  : step.fixed);
  pipeline.layer =
      getSeconds(step.layer, step.computingOfLayer, step.fixedOfLayer);
  pipeline.head = step.all.headProducts / devices;
  pipeline.isBalanced = isPipeline && extrapolates(request, candidate);
  pipeline.endsOnFirst = candidate.mesh.schedule == PipelineSchedule::ZBV;
  // The last layer of a program need not be computed again. The segments of a
  // stage may begin and end within a layer.
  double again =
      std::max(0.0, pipeline.layers - double(candidate.getNumStages()) -
                        (isPipeline ? 1 : 0));
  pipeline.all +=
      getRepeated(candidate, topology, step, result.state) * again / devices;
  if (passes) {
    pipeline.all = std::max(pipeline.all, passes->all);
    pipeline.layer = std::max(pipeline.layer, passes->layer);
  }
  double leastPasses = isPipeline ? pipeline.getBound() : micro * pipeline.all;
  double bubble =
      isPipeline && pipeline.all > 0
          ? pipeline.getEstimate() / (micro * pipeline.all / stages) - 1
          : 0;
  double computing = products +
                     micro * one.forwardProducts / devices * repeated +
                     others * (1 + 0.3 * repeated) + accumulation +
                     estimateContextWork(candidate, topology, one);

  double traffic = getTraffic(candidate, topology, one, step.layer);
  bool hides = getNamedSchedule(candidate.overlap).order.has_value();
  double least = leastPasses + update * stored(1) / storedAtMost(1);
  // The exchanges of the update are behind the passes, which hide none of them.
  // Those of layers count: tables may have sizes that no axis divides, and are
  // not gathered then.
  if (hides) {
    pipeline.update = getUpdateTraffic(candidate, topology, step.layer);
    least = std::max(least, isPipeline ? pipeline.getBound()
                                       : leastPasses +
                                             pipeline.layers * pipeline.update);
  }
  result.seconds = hides ? std::max(least, traffic) : least + traffic;

  auto [tensorSeconds, contextSeconds, dataSeconds] =
      estimateCollectives(candidate, topology, one);

  // The exposed part of these seconds, within the passes and after them.
  double exposed = tensorSeconds + contextSeconds, exposedAtEnd = dataSeconds;
  bool isRing = candidate.mesh.attention == ContextParallelism::Ring;
  if (hides) {
    double hidden = candidate.subBatches > 1 ? 0.8 : 0.25;
    double compute = computing + update;
    exposed =
        std::max(tensorSeconds * (1 - hidden),
                 tensorSeconds - compute * hidden) +
        (isRing ? std::max(contextSeconds * 0.1, contextSeconds - compute * 0.3)
                : std::max(contextSeconds * (1 - hidden),
                           contextSeconds - compute * hidden));
    // With several micro-batches, the update sums gradients; nothing hides it.
    double atEnd = micro > 1 && candidate.zeroLevel < 2 ? 0.8 : 0.1;
    exposedAtEnd = std::max(dataSeconds * atEnd, dataSeconds - compute * 0.7);
  }
  result.update = update + exposedAtEnd;
  result.estimate = std::max(
      result.seconds, (computing + exposed) * (1 + bubble) + result.update +
                          estimateTables(candidate, topology, step.all));
  return result;
}
