//===- CollectiveCost.cpp - Time and traffic of collectives ---------------===//

#include "heddle/Cost/CollectiveCost.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace heddle;
using llvm::ArrayRef;

llvm::Expected<MeshTopology> MeshTopology::create(Cluster cluster,
                                                  ArrayRef<int64_t> axisSizes) {
  MeshTopology topology;
  if (axisSizes.size() > 32)
    return llvm::createStringError("expected a mesh of at most 32 axes, got " +
                                   std::to_string(axisSizes.size()));
  topology.sizes = axisSizes.vec();
  topology.strides.resize(axisSizes.size());
  for (size_t i = axisSizes.size(); i-- > 0;) {
    topology.strides[i] = topology.devices;
    topology.devices *= axisSizes[i];
  }
  if (topology.devices > cluster.getNumDevices())
    return llvm::createStringError(
        "expected a mesh of at most the " +
        std::to_string(cluster.getNumDevices()) + " devices of the cluster '" +
        cluster.name + "', got one of " + std::to_string(topology.devices));
  int64_t unit = 1;
  for (const ClusterLevel &level : cluster.levels) {
    topology.unitSizes.push_back(unit);
    unit *= level.count;
  }
  topology.cluster = std::move(cluster);
  return topology;
}

int64_t MeshTopology::getSize(AxisMask axes) const {
  int64_t size = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (axes >> i & 1)
      size *= sizes[i];
  return size;
}

std::vector<unsigned> MeshTopology::listAxes(AxisMask axes) const {
  std::vector<unsigned> list;
  for (unsigned axis = 0; axis < sizes.size(); ++axis)
    if (axes >> axis & 1)
      list.push_back(axis);
  return list;
}

int64_t MeshTopology::getFirstOfGroup(int64_t device, AxisMask axes) const {
  int64_t first = device;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (axes >> i & 1)
      first -= getCoordinate(device, i) * strides[i];
  return first;
}

int MeshTopology::getMeetingLevel(int64_t a, int64_t b) const {
  int level = -1;
  for (size_t i = 0; i < unitSizes.size(); ++i)
    if (a / unitSizes[i] != b / unitSizes[i])
      level = int(i);
  return level;
}

std::vector<std::vector<int64_t>> MeshTopology::getGroups(AxisMask axes) const {
  // The first member of a group is its lowest device, and groups are in the
  // order of these devices.
  std::vector<std::vector<int64_t>> members;
  std::vector<size_t> indices(devices);
  for (int64_t device = 0; device < devices; ++device) {
    int64_t first = getFirstOfGroup(device, axes);
    if (first == device) {
      indices[device] = members.size();
      members.emplace_back();
    }
    members[indices[first]].push_back(device);
  }
  return members;
}

int MeshTopology::getOutermostLevel(AxisMask axes) const {
  auto [known, isNew] = outermostLevels.try_emplace(axes, -1);
  if (!isNew)
    return known->second;
  // The last device of a group is as far from the first in all groups.
  int64_t span = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (axes >> i & 1)
      span += (sizes[i] - 1) * strides[i];
  int &level = known->second;
  for (int64_t device = 0; device < devices; ++device)
    if (getFirstOfGroup(device, axes) == device)
      level = std::max(level, getMeetingLevel(device, device + span));
  return level;
}

MeshTopology::Step
MeshTopology::measure(ArrayRef<std::pair<int64_t, int64_t>> messages) const {
  // For each level and unit, the number of blocks that leave and enter the
  // unit.
  std::vector<std::vector<int64_t>> out(unitSizes.size()), in(out);
  for (auto [from, to] : messages) {
    int level = getMeetingLevel(from, to);
    if (level < 0)
      continue;
    int64_t unit = unitSizes[level];
    if (out[level].empty()) {
      out[level].resize(llvm::divideCeil(devices, unit));
      in[level] = out[level];
    }
    ++out[level][from / unit];
    ++in[level][to / unit];
  }
  Step step;
  for (size_t i = 0; i < unitSizes.size(); ++i) {
    int64_t most = 0;
    for (const std::vector<int64_t> &counts : {out[i], in[i]})
      for (int64_t count : counts)
        most = std::max(most, count);
    if (most == 0)
      continue;
    const ClusterLevel &level = cluster.levels[i];
    step.latency = std::max(step.latency, level.latency);
    step.secondsPerByte =
        std::max(step.secondsPerByte, double(most) / level.getUnitRate());
  }
  return step;
}

MeshTopology::Step MeshTopology::getShift(ArrayRef<std::vector<int64_t>> groups,
                                          int64_t shift) const {
  std::vector<std::pair<int64_t, int64_t>> messages;
  messages.reserve(devices);
  for (const std::vector<int64_t> &group : groups)
    for (size_t i = 0; i < group.size(); ++i)
      messages.emplace_back(group[i], group[(i + shift) % group.size()]);
  return measure(messages);
}

MeshTopology::Step MeshTopology::getRing(AxisMask axes) const {
  auto [known, isNew] = rings.try_emplace(axes);
  if (isNew)
    known->second = getShift(getGroups(axes), 1);
  return known->second;
}

CollectiveCost MeshTopology::ring(AxisMask axes, int64_t steps,
                                  int64_t blockBytes) const {
  CollectiveCost cost{cluster.device.launch, 0};
  if (getSize(axes) == 1)
    return cost;
  Step step = getRing(axes);
  cost.seconds +=
      double(steps) * (step.latency + double(blockBytes) * step.secondsPerByte);
  cost.bytes = steps * blockBytes;
  return cost;
}

CollectiveCost MeshTopology::allGather(AxisMask axes, int64_t partBytes) const {
  return ring(axes, getSize(axes) - 1, partBytes);
}

CollectiveCost MeshTopology::reduceScatter(AxisMask axes,
                                           int64_t partBytes) const {
  return ring(axes, getSize(axes) - 1, partBytes);
}

CollectiveCost MeshTopology::allReduce(AxisMask axes, int64_t bytes) const {
  int64_t members = getSize(axes);
  return ring(axes, 2 * (members - 1), llvm::divideCeil(bytes, members));
}

CollectiveCost MeshTopology::allToAll(AxisMask axes, int64_t blockBytes) const {
  int64_t members = getSize(axes);
  auto [known, isNew] = exchanges.try_emplace(axes);
  if (isNew) {
    std::vector<std::vector<int64_t>> groups = getGroups(axes);
    for (int64_t shift = 1; shift < members; ++shift) {
      Step step = getShift(groups, shift);
      known->second.latency += step.latency;
      known->second.secondsPerByte += step.secondsPerByte;
    }
  }
  return {cluster.device.launch + known->second.latency +
              double(blockBytes) * known->second.secondsPerByte,
          (members - 1) * blockBytes};
}

CollectiveCost MeshTopology::broadcast(AxisMask axes, int64_t bytes) const {
  int64_t members = getSize(axes);
  if (members == 1)
    return {cluster.device.launch, 0};
  Step step = getRing(axes);
  return {cluster.device.launch + double(members - 1) * step.latency +
              double(bytes) * step.secondsPerByte,
          bytes};
}

MeshTopology::Transfers
MeshTopology::getTransfers(ArrayRef<int64_t> sources) const {
  std::vector<std::pair<int64_t, int64_t>> messages;
  std::vector<int64_t> sent(devices);
  Transfers transfers;
  for (auto [device, source] : llvm::enumerate(sources)) {
    if (source < 0 || source == int64_t(device)) {
      transfers.isLocal = true;
      continue;
    }
    messages.emplace_back(source, int64_t(device));
    transfers.most = std::max(transfers.most, ++sent[source]);
  }
  transfers.step = measure(messages);
  return transfers;
}

CollectiveCost MeshTopology::getCost(const Transfers &transfers,
                                     int64_t bytes) const {
  const Step &step = transfers.step;
  double seconds = step.latency + double(bytes) * step.secondsPerByte;
  if (transfers.isLocal)
    seconds =
        std::max(seconds, 2 * double(bytes) / cluster.device.getMemoryRate());
  return {cluster.device.launch + seconds, transfers.most * bytes};
}

CollectiveCost MeshTopology::permute(ArrayRef<int64_t> sources,
                                     int64_t bytes) const {
  return getCost(getTransfers(sources), bytes);
}

CollectiveCost MeshTopology::permuteMembers(ArrayRef<unsigned> axes,
                                            ArrayRef<int64_t> sources,
                                            int64_t bytes) const {
  auto [known, isNew] = permutes.try_emplace({axes.vec(), sources.vec()});
  if (!isNew)
    return getCost(known->second, bytes);
  // The distance of each member from the first one of its group.
  std::vector<int64_t> offsets(sources.size());
  AxisMask mask = 0;
  int64_t faster = int64_t(sources.size());
  for (unsigned axis : axes) {
    mask |= AxisMask(1) << axis;
    faster /= sizes[axis];
    for (auto [member, offset] : llvm::enumerate(offsets))
      offset += int64_t(member) / faster % sizes[axis] * strides[axis];
  }
  // All groups transfer at the same time, so they are priced together.
  std::vector<int64_t> global(devices, -1);
  for (int64_t device = 0; device < devices; ++device)
    if (getFirstOfGroup(device, mask) == device)
      for (auto [member, source] : llvm::enumerate(sources))
        if (source >= 0)
          global[device + offsets[member]] = device + offsets[source];
  known->second = getTransfers(global);
  return getCost(known->second, bytes);
}

CollectiveCost MeshTopology::local(int64_t bytes) const {
  double bandwidth = cluster.device.getMemoryRate();
  return {cluster.device.launch + 2 * double(bytes) / bandwidth, 0};
}
