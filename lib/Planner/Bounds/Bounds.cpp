//===- Bounds.cpp - What a candidate takes at least -----------------------===//

#include "Bounds.h"
#include "heddle/Stages/StageSchedule.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace heddle;

namespace {

/// The part of the bytes of unfused ops that fused kernels still move. An
/// estimate, from the programs of gpt2 and llama.
constexpr double kFusedPart = 0.35;
/// The part of the forward pass that is computed again, and of the kept bytes
/// that stay, by mode of recomputation. Estimates.
constexpr double kRepeated = 0.8;
constexpr double kKeptByCommunication = 0.35, kKeptByLayer = 0.15;

/// The axes of a candidate's mesh: pp, those of dp, cp, and those of tp.
struct MeshAxes {
  std::vector<int64_t> sizes;
  AxisMask data = 0, storage = 0, context = 0, tensor = 0;

  explicit MeshAxes(const DefaultMesh &mesh) {
    add(mesh.pipeline);
    for (int64_t size : mesh.data)
      data |= storage = add(size);
    context = add(mesh.context);
    for (int64_t size : mesh.tensor)
      tensor |= add(size);
  }

private:
  AxisMask add(int64_t size) {
    sizes.push_back(size);
    return AxisMask(1) << (sizes.size() - 1);
  }
};

/// Bytes that exchanges have to carry, by level of the topology.
class LinkBounds {
public:
  explicit LinkBounds(const MeshTopology &topology)
      : topology(topology), seconds(topology.getCluster().levels.size()) {}

  /// Adds `times` exchanges in which every group over `axes` scatters or
  /// gathers `bytes` in all. If a group has members in U units of a level, each
  /// unit receives the parts of the other U - 1.
  void add(AxisMask axes, double bytes, double times) {
    const Cluster &cluster = topology.getCluster();
    int64_t members = topology.getSize(axes);
    for (unsigned level = 0; level < seconds.size(); ++level) {
      int64_t unit =
          std::min(topology.getUnitSize(level), topology.getNumDevices());
      int64_t inside = countInside(axes, unit);
      // Groups that do not fill units alike are left to the simulation.
      if (members % inside != 0 || unit % inside != 0)
        continue;
      double units = double(members / inside);
      seconds[level] += times * (units - 1) / units * bytes *
                        double(unit / inside) /
                        cluster.levels[level].getUnitRate();
    }
  }
  double getMost() const {
    return seconds.empty() ? 0
                           : *std::max_element(seconds.begin(), seconds.end());
  }

private:
  /// Returns how many members of device 0's group are in the first unit.
  int64_t countInside(AxisMask axes, int64_t unit) const {
    int64_t inside = 0;
    for (int64_t device = 0; device < unit; ++device)
      inside += topology.getFirstOfGroup(device, axes) == 0;
    return inside;
  }

  const MeshTopology &topology;
  std::vector<double> seconds;
};

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
  double all = 0;   ///< of the whole program, if one device did it
  double layer = 0; ///< of one layer
  /// Seconds of a layer's exchanges behind the last pass of its device.
  double update = 0;
  /// The part of a stage's time in which other stages wait while the pipeline
  /// fills and drains: all of it, or the forward pass if the pass for weights
  /// fills the rest.
  double waiting = 1;

  /// No pipeline takes less. A device waits for one chunk of each device before
  /// it, at the beginning and at the end.
  double getBound() const {
    double fill = (stages - 1) / chunks * waiting;
    // Whatever the stages: the times T_s for which each s has
    // m T_s + T_0 + ... + T_{s-1} = C add up to `all`.
    double least = (microBatches * all + layers * update) / stages;
    if (chunks == 1 && waiting == 1)
      least =
          std::max(least, all / (1 - std::pow(1 - 1 / microBatches, stages)));
    // By whole layers, a device has more than its part, or all have equally
    // many.
    double most = std::ceil(layers / stages);
    auto getBusy = [&](double count) {
      return count * (microBatches * layer + update);
    };
    double uneven = getBusy(most);
    if (most * stages == layers)
      uneven = std::min(uneven + fill * most * layer, getBusy(most + 1));
    return std::max(least, uneven);
  }

  /// What a pipeline is likely to take: the last stage has the head, and as
  /// many layers as balance it.
  double getEstimate() const {
    double head = std::max(0.0, all - layers * layer);
    double busiest = std::numeric_limits<double>::infinity();
    for (double last = 1; last <= layers - stages + 1; ++last)
      busiest = std::min(
          busiest, std::max(last * layer + head,
                            std::ceil((layers - last) / (stages - 1)) * layer));
    return busiest * microBatches +
           (stages - 1) / chunks * waiting * all / stages;
  }
};

} // namespace

/// Returns the seconds of the traffic that no schedule avoids, over the links
/// that it keeps busy longest. `one` is what a stage computes and stores.
double BoundModel::getTraffic(const Candidate &candidate,
                              const MeshTopology &topology,
                              const ProgramCounts &one,
                              const ProgramCounts &layer) const {
  MeshAxes axes(candidate.mesh);
  double micro = double(candidate.microBatches);
  double part =
      1 / double(topology.getSize(axes.data) * topology.getSize(axes.context));
  double tensor = double(topology.getSize(axes.tensor));
  AxisMask replicas = axes.data | axes.context;
  // With bf16 products, parameters and activations may travel in bf16.
  double narrow = request.training.bf16 ? 0.5 : 1;
  LinkBounds links(topology);
  // Operators that are computed whole exchange no sums, and those that are
  // decided one by one may exchange others.
  if (request.pins.replicated.empty() && !candidate.decidesOperators)
    links.add(axes.tensor, one.tensorSums * part, 2 * micro);
  if (!candidate.decidesOperators) {
    // Gradients that are stored in parts are added up in each micro-batch.
    bool addsAlways = candidate.zeroLevel >= 2;
    links.add(addsAlways ? axes.storage : replicas, one.gradients / tensor,
              addsAlways ? micro : 1);
    if (candidate.zeroLevel == 0)
      links.add(replicas, one.gradients / tensor, 1);
    else if (candidate.zeroLevel >= 3) {
      links.add(axes.storage, one.parameters / tensor * narrow, micro);
      // Each part of a micro-batch gathers a weight in its forward and in its
      // backward pass, because others are gathered between the two. In the last
      // layer, one gather may serve both.
      double others = double(request.program.layers.value_or(1) - 1) /
                      double(candidate.mesh.pipeline);
      if (!statesSplits() && !statesStorage())
        links.add(axes.storage, others * layer.readTwice / tensor * narrow,
                  micro * double(2 * candidate.subBatches - 1));
    } else
      links.add(axes.storage, one.parameters / tensor, 1);
  }
  return links.getMost();
}

/// Returns the seconds of the exchanges that begin when the last pass has
/// ended. The update is a program of its own behind the last micro-batch. It
/// sums gradients up unless these are stored in parts, which each micro-batch
/// adds to. Parameters that are updated in parts are gathered last. A single
/// micro-batch is one program with the update: there the clip, which waits for
/// all gradients, comes before the update of any parameter.
double BoundModel::getUpdateTraffic(const Candidate &candidate,
                                    const MeshTopology &topology,
                                    const ProgramCounts &one) const {
  if (candidate.decidesOperators || statesSplits() || statesStorage())
    return 0;
  MeshAxes axes(candidate.mesh);
  double tensor = double(topology.getSize(axes.tensor));
  AxisMask replicas = axes.data | axes.context;
  // Tables of positions may be split with the sequence.
  double whole = 1 / tensor;
  if (candidate.mesh.context > 1 && one.parameters > 0)
    whole *= one.weights / one.parameters;
  bool isAlone = candidate.microBatches > 1;
  LinkBounds links(topology);
  if (isAlone && candidate.zeroLevel <= 1)
    links.add(replicas, one.gradients * whole,
              candidate.zeroLevel == 0 ? 2 : 1);
  if ((isAlone || request.training.clip > 0) &&
      (candidate.zeroLevel == 1 || candidate.zeroLevel == 2))
    links.add(axes.storage, one.parameters * whole, 1);
  return links.getMost();
}

/// Estimates the collectives of a step, one after the other.
BoundModel::CollectiveSeconds
BoundModel::estimateCollectives(const Candidate &candidate,
                                const MeshTopology &topology,
                                const ProgramCounts &one) const {
  MeshAxes axes(candidate.mesh);
  double micro = double(candidate.microBatches);
  double data = double(topology.getSize(axes.data));
  double context = double(topology.getSize(axes.context));
  double tensor = double(topology.getSize(axes.tensor));
  double group = double(topology.getSize(axes.storage));
  double part = 1 / (data * context); // of the tokens
  bool storesParameters = candidate.zeroLevel >= 3;
  double narrow = request.training.bf16 ? 0.5 : 1;
  AxisMask replicas = axes.data | axes.context;
  double sums = std::max(one.numTensorSums, 1.0);
  double tensorSeconds =
      tensor == 1 ? 0
                  : micro * sums *
                        topology
                            .allReduce(axes.tensor,
                                       int64_t(one.tensorSums * part / sums))
                            .seconds;
  double gradients = one.gradients / tensor;
  double dataSeconds = 0;
  if (data * context > 1) {
    // A level-by-level sum costs what its innermost and its outer part do.
    bool isProduct = candidate.mesh.data.size() > 1;
    if (isProduct || candidate.zeroLevel > 0) {
      double whole = gradients / group;
      double sums = candidate.zeroLevel >= 2 ? micro : 1;
      dataSeconds +=
          topology.reduceScatter(axes.storage, int64_t(whole)).seconds * sums;
      if (AxisMask outer = replicas & ~axes.storage)
        dataSeconds += topology.allReduce(outer, int64_t(whole)).seconds * sums;
      double gathers = storesParameters ? 2 * micro * narrow : 1;
      dataSeconds +=
          gathers *
          topology
              .allGather(axes.storage, int64_t(one.parameters / tensor / group))
              .seconds;
    } else {
      dataSeconds += topology.allReduce(replicas, int64_t(gradients)).seconds;
    }
  }
  double contextSeconds = 0;
  if (context > 1)
    contextSeconds =
        3 * micro *
        topology.allGather(axes.context, int64_t(one.keyBytes * part / tensor))
            .seconds;
  return {tensorSeconds, contextSeconds, dataSeconds};
}

/// Returns a lower bound of the bytes that stay from the forward to the
/// backward pass, if nothing is computed again. Every device of a tensor
/// parallel group has the whole operands of products that it splits along
/// weights. A part of the batch may have ended before the next one begins. The
/// first stage of a pipeline works on as many micro-batches as there are
/// stages, and its forward pass is a program of its own, of all parts.
double BoundModel::getKept(const Candidate &candidate,
                           const MeshTopology &topology,
                           const ProgramCounts &all,
                           const ProgramCounts &layer) const {
  MeshAxes axes(candidate.mesh);
  auto tensor = double(topology.getSize(axes.tensor));
  // With other splits, anything may be in parts.
  bool isStandard = !candidate.decidesOperators && !statesSplits();
  auto getBytes = [&](const ProgramCounts &counts) {
    return counts.keptInParts / tensor +
           counts.keptWhole / (isStandard ? 1 : tensor);
  };
  double part =
      1 / double(topology.getSize(axes.data) * topology.getSize(axes.context));
  if (candidate.mesh.pipeline == 1)
    return getBytes(all) * part / double(candidate.subBatches);
  auto held = double(std::min(candidate.mesh.pipeline, candidate.microBatches));
  return getBytes(layer) * part * held * getLeastLayers(candidate);
}

/// Returns the seconds of a layer's products that the candidate computes again
/// at least, if one device computes them. The optimal choice need not repeat
/// anything if the memory suffices. `state` has the bytes of variables.
double BoundModel::getRepeated(const Candidate &candidate,
                               const MeshTopology &topology,
                               const StepCounts &step, double state) const {
  if (candidate.recompute != RecomputeMode::Layer &&
      candidate.recompute != RecomputeMode::Communication)
    return 0;
  // The counts know which products the standard plan exchanges, whose results
  // stay. With other splits, the results of others may stay.
  bool isStandard = !candidate.decidesOperators &&
                    request.pins.replicated.empty() && !statesSplits();
  if (candidate.recompute == RecomputeMode::Communication && !isStandard)
    return 0;
  if (candidate.mesh.context == 1)
    return step.layer.repeatedProducts;
  // The steps of a ring may be taken for layers. Then all else stays, unless
  // that exceeds the memory. What a ring has received may stay in any case, and
  // with it what attention makes of it.
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
/// device may have only one, and stages that the user states any number.
double BoundModel::getLeastLayers(const Candidate &candidate) const {
  if (request.stated && request.stated->numStages > 0)
    return 0;
  auto layers = double(request.program.layers.value_or(1));
  return request.cluster.groups.empty()
             ? std::floor(layers / double(candidate.mesh.pipeline))
             : 1;
}

/// Returns whether each data parallel device does all work on weights and
/// gradients that does not grow with the rows, in each micro-batch. If
/// gradients are stored in parts, so are their sums. A step of one micro-batch
/// sums none up.
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
  if (!candidate.leavesSchedule)
    return bounds;
  // The bound is that of the least work: whatever the schedule chooses adds
  // launches, gathers or work. Parts and what is computed again may leave
  // nothing to keep. The estimate is that of the fastest choice that is
  // expected to fit, or of the smallest.
  bounds.kept = 0;
  auto exceeds = [&](const CandidateBounds &of) {
    return of.state + of.arena > double(request.memory);
  };
  std::optional<CandidateBounds> best;
  for (int64_t parts : {1, 2, 4})
    for (RecomputeMode mode :
         {RecomputeMode::None, RecomputeMode::Communication,
          RecomputeMode::Layer}) {
      if (request.pins.subBatches.value_or(parts) != parts ||
          request.pins.recompute.value_or(mode) != mode)
        continue;
      Candidate choice = candidate;
      choice.subBatches = parts;
      choice.recompute = mode;
      CandidateBounds next = rate(choice, *topology, passes);
      auto getKey = [&](const CandidateBounds &of) {
        bool isTooLarge = exceeds(of);
        return std::tuple(isTooLarge, isTooLarge ? of.arena : of.estimate);
      };
      if (!best || getKey(next) < getKey(*best))
        best = next;
    }
  if (best) {
    bounds.estimate = best->estimate;
    bounds.update = best->update;
    bounds.arena = best->arena;
  }
  return bounds;
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
  CandidateBounds result;

  // Memory. Gradients of one micro-batch lie in the arena, until their norm is
  // known.
  result.state = one.parameters / stored(3) + one.optimizerState / stored(1) +
                 (micro > 1 ? one.gradients / stored(2) : 0);
  // Tables of positions may be split with the sequence.
  if (context > 1 && one.parameters > 0)
    result.state *= one.weights / one.parameters;
  double keptPart = candidate.recompute == RecomputeMode::None ? 1
                    : candidate.recompute == RecomputeMode::Communication
                        ? kKeptByCommunication
                        : kKeptByLayer;
  double split = candidate.mesh.sequence ? 1 / tensor : 0.35 + 0.65 / tensor;
  // A device holds the activations of as many micro-batches as it has stages
  // before it and itself.
  double held = std::min(stages, micro);
  result.arena = one.keptBytes * held * part * split * keptPart +
                 (micro > 1 ? 0 : one.gradients / stored(1));
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
  // Of a micro-batch, on the devices of one stage.
  bool isRepeated = repeatsFixed(candidate);
  auto getSeconds = [&](const ProgramCounts &counts, double computing,
                        double fixed) {
    double launched =
        std::max(counts.products, computing) / devices +
        counts.numProducts * double(candidate.subBatches) * device.launch;
    return isRepeated ? std::max(launched, computing / devices + fixed / tensor)
                      : launched;
  };
  // Tables of positions may be split with the sequence, so only layers count.
  pipeline.all = getSeconds(
      step.all, step.computing,
      context > 1 ? std::min(step.fixed, pipeline.layers * step.fixedOfLayer)
                  : step.fixed);
  pipeline.layer =
      getSeconds(step.layer, step.computingOfLayer, step.fixedOfLayer);
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
                     others * (1 + 0.3 * repeated) + accumulation;

  double traffic = getTraffic(candidate, topology, one, step.layer);
  bool hides = getNamedSchedule(candidate.overlap).order.has_value();
  // Variables that are decided one by one may be stored in more parts.
  double least =
      leastPasses +
      (candidate.decidesOperators ? update * stored(1) / devices : update);
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

  // What of them is exposed, in the passes and behind them.
  double exposed = tensorSeconds + contextSeconds, exposedAtEnd = dataSeconds;
  if (hides) {
    // Micro-batches of a pipeline are small, so parts of them add little.
    double hidden = candidate.subBatches > 1 && !isPipeline ? 0.8 : 0.25;
    double compute = computing + update;
    exposed = std::max(tensorSeconds * (1 - hidden),
                       tensorSeconds - compute * hidden) +
              std::max(contextSeconds * 0.1, contextSeconds - compute * 0.3);
    // With several micro-batches, the update sums gradients; nothing hides it.
    double atEnd = micro > 1 && candidate.zeroLevel < 2 ? 0.8 : 0.1;
    exposedAtEnd = std::max(dataSeconds * atEnd, dataSeconds - compute * 0.7);
  }
  result.update = update + exposedAtEnd;
  result.estimate = std::max(
      result.seconds, (computing + exposed) * (1 + bubble) + result.update);
  return result;
}
