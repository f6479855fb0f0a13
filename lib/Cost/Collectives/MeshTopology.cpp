//===- MeshTopology.cpp - Where a mesh lies on a cluster ------------------===//

#include "heddle/Cost/CollectiveCost.h"
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
