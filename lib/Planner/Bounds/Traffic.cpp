//===- Traffic.cpp - Least traffic of a candidate -------------------------===//

#include "Bounds.h"
#include "MeshAxes.h"
#include "StageLinks.h"
#include "heddle/Stages/StageSchedule.h"
#include <algorithm>

using namespace heddle;

namespace {

/// Bytes that exchanges have to carry, by level of the topology.
class LinkBounds {
public:
  explicit LinkBounds(const MeshTopology &topology)
      : topology(topology), seconds(topology.getCluster().levels.size()) {}

  /// Adds `times` collectives in which each group over `axes` scatters or
  /// gathers `bytes` in all. If a group has members in U units of a level, each
  /// unit receives the parts of the other U - 1 units. If members exchange
  /// parts (all-to-all), it receives its share of these parts.
  void add(AxisMask axes, double bytes, double times, bool exchanges = false) {
    addShared(axes, axes, bytes, times, exchanges);
  }
  /// Adds collectives like add(), in which the groups that differ along
  /// `replicas` alone scatter or gather the same. `replicas` contains `axes`.
  /// Each part need enter a unit only once: the devices of a unit may each
  /// receive a share of it, and pass it on within the unit.
  void addShared(AxisMask axes, AxisMask replicas, double bytes, double times,
                 bool exchanges = false) {
    int64_t members = topology.getSize(axes);
    for (unsigned level = 0; level < seconds.size(); ++level) {
      int64_t unit =
          std::min(topology.getUnitSize(level), topology.getNumDevices());
      int64_t inside = countInside(axes, unit);
      int64_t alike = countInside(replicas, unit);
      // The bound leaves out groups that do not fill units alike.
      if (members % inside != 0 || unit % alike != 0)
        continue;
      double units = double(members / inside);
      seconds[level] += times * (units - 1) / units *
                        (exchanges ? bytes / units : bytes) *
                        double(unit / alike) / getRate(level);
    }
  }
  double getMost() const {
    return seconds.empty() ? 0
                           : *std::max_element(seconds.begin(), seconds.end());
  }

private:
  /// Returns the bytes that a unit of a level receives in a second. If its part
  /// of the links of an outer level is faster, it need not receive these bytes
  /// by its own links. The devices of one unit of an outer level do not use its
  /// links.
  double getRate(unsigned level) const {
    const std::vector<ClusterLevel> &levels = topology.getCluster().levels;
    auto unit = double(topology.getUnitSize(level));
    double own = levels[level].getUnitRate(), rate = own;
    for (unsigned outer = level + 1; outer < levels.size(); ++outer) {
      int64_t size = topology.getUnitSize(outer);
      if (size >= topology.getNumDevices())
        break;
      double part = levels[outer].getUnitRate() * unit / double(size);
      if (part > own)
        rate += part;
    }
    return rate;
  }
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

/// Returns the seconds of the traffic that no schedule avoids, on the busiest
/// links. `one` has the counts of one stage.
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
  // Tables of positions may be split with the sequence.
  double whole = 1 / tensor;
  if (candidate.mesh.context > 1 && one.parameters > 0)
    whole *= one.weights / one.parameters;
  // With bf16 products, parameters and activations may travel in bf16.
  double narrow = request.training.bf16 ? 0.5 : 1;
  LinkBounds links(topology);
  // Operators that are computed whole exchange no sums. Those that are decided
  // one by one, or that the user states, may exchange others.
  bool isStandard = !candidate.decidesOperators && !statesSplits();
  if (request.pins.replicated.empty() && isStandard)
    links.add(axes.tensor, one.tensorSums * part, 2 * micro);
  if (isStandard) {
    // In each pass, keys and values visit all devices, or queries, keys, values
    // and outputs change places. In the backward pass, so do their gradients.
    double group = part * topology.getSize(axes.context) / tensor;
    bool exchanges = candidate.mesh.attention == ContextParallelism::Heads;
    links.add(axes.context,
              (one.keyBytes + (exchanges ? one.queryBytes : 0)) * group,
              micro * (one.gradients > 0 ? 2 : 1), exchanges);
  }
  if (isStandard && !statesStorage()) {
    // Gradients that are stored in parts are added up in each micro-batch.
    bool addsAlways = candidate.zeroLevel >= 2;
    links.addShared(addsAlways ? axes.storage : replicas, replicas,
                    one.gradients * whole, addsAlways ? micro : 1);
    if (candidate.zeroLevel == 0)
      links.add(replicas, one.gradients * whole, 1);
    else if (candidate.zeroLevel >= 3) {
      links.addShared(axes.storage, replicas, one.parameters * whole * narrow,
                      micro);
      // Each part of a micro-batch gathers a weight in its forward and in its
      // backward pass, because other weights are gathered in between. In the
      // last layer, one gather may serve both passes.
      double others = double(request.program.layers.value_or(1) - 1) /
                      double(candidate.mesh.pipeline);
      links.addShared(axes.storage, replicas,
                      others * layer.readTwice / tensor * narrow,
                      micro * double(2 * candidate.subBatches - 1));
    } else
      links.addShared(axes.storage, replicas, one.parameters * whole, 1);
  }
  return links.getMost();
}

/// Returns the seconds of the exchanges that begin when the last pass has
/// ended. The update is a program of its own after the last micro-batch. The
/// update sums gradients up, unless they are stored in parts: then each
/// micro-batch adds to the parts. Parameters that are updated in parts are
/// gathered last. A single micro-batch is one program with the update. There
/// the gradient clip, which waits for all gradients, comes before the update of
/// any parameter.
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
    links.addShared(axes.storage, replicas, one.parameters * whole, 1);
  return links.getMost();
}

/// Estimates the exchange of the gradients of tables that the first and the
/// last stage share. It begins when both have ended their passes.
double BoundModel::estimateTables(const Candidate &candidate,
                                  const MeshTopology &topology,
                                  const ProgramCounts &all) const {
  const DefaultMesh &mesh = candidate.mesh;
  int64_t last = getDeviceOfStage(mesh.schedule, mesh.pipeline,
                                  candidate.getNumStages() - 1);
  if (last == 0 || all.sharedTables == 0)
    return 0;
  MeshAxes axes(mesh);
  double parts =
      double(topology.getSize(axes.tensor)) *
      (candidate.zeroLevel >= 2 ? double(topology.getSize(axes.storage)) : 1);
  return StageLinks(topology).exchange(0, last, all.sharedTables / parts);
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
    // A hierarchical all-reduce costs the sum of its inner and its outer part.
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
  return {tensorSeconds, estimateContext(candidate, topology, one),
          dataSeconds};
}
