//===- CollectiveCost.cpp - Time and traffic of collectives ---------------===//

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Cost/RingSteps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace heddle;
using llvm::ArrayRef;

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

double MeshTopology::getRingLatency(ArrayRef<int64_t> members) const {
  double sum = 0;
  for (auto [i, member] : llvm::enumerate(members))
    if (int level = getMeetingLevel(member, members[(i + 1) % members.size()]);
        level >= 0)
      sum += cluster.levels[level].latency;
  return members.empty() ? 0 : sum / double(members.size());
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
  if (!isNew)
    return known->second;
  std::vector<std::vector<int64_t>> groups = getGroups(axes);
  Step &step = known->second = getShift(groups, 1);
  step.latency = 0;
  for (const std::vector<int64_t> &group : groups)
    step.latency = std::max(step.latency, getRingLatency(group));
  return step;
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
  RingSteps steps = getPartRing(getSize(axes), partBytes);
  return ring(axes, steps.count, steps.blockBytes);
}

CollectiveCost MeshTopology::reduceScatter(AxisMask axes,
                                           int64_t partBytes) const {
  return allGather(axes, partBytes);
}

CollectiveCost MeshTopology::allReduce(AxisMask axes, int64_t bytes) const {
  RingSteps steps = getAllReduceRing(getSize(axes), bytes);
  return ring(axes, steps.count, steps.blockBytes);
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
