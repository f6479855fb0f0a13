//===- LinkTraffic.cpp - What communication sends over which links --------===//

#include "LinkTraffic.h"
#include "heddle/Cost/RingSteps.h"
#include "heddle/Simulate/MeshAxes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace heddle;
using llvm::ArrayRef;

LinkTraffic::LinkTraffic(MeshTopology mesh) : topology(std::move(mesh)) {
  const Cluster &cluster = topology.getCluster();
  for (auto [i, level] : llvm::enumerate(cluster.levels)) {
    firstLinks.push_back(capacities.size());
    int64_t units =
        llvm::divideCeil(topology.getNumDevices(), topology.getUnitSize(i));
    capacities.insert(capacities.end(), 2 * units, level.getUnitRate());
    levels.resize(capacities.size(), i);
  }
}

LinkTraffic::Step LinkTraffic::getStep(const Messages &messages) {
  Step step;
  std::map<unsigned, int64_t> loads;
  for (auto [from, to] : messages) {
    int level = topology.getMeetingLevel(from, to);
    if (level < 0)
      continue; // from a device to itself
    step.latency =
        std::max(step.latency, topology.getCluster().levels[level].latency);
    int64_t unit = topology.getUnitSize(level);
    ++loads[firstLinks[level] + 2 * (from / unit)];
    ++loads[firstLinks[level] + 2 * (to / unit) + 1];
  }
  if (loads.empty())
    return step;
  Pattern pattern;
  double pace = 0;
  for (auto [link, count] : loads) {
    pattern.push_back({link, count});
    pace = std::max(pace, double(count) / capacities[link]);
  }
  auto [known, isNew] = numbers.try_emplace(pattern, patterns.size());
  if (isNew) {
    patterns.push_back(std::move(pattern));
    alone.push_back(pace);
  }
  step.pattern = known->second;
  return step;
}

std::pair<std::vector<LinkTraffic::Step>, int64_t>
LinkTraffic::getShifts(ArrayRef<unsigned> axes, ArrayRef<int64_t> devices,
                       bool isAllToAll) {
  std::vector<unsigned> sorted = axes.vec();
  llvm::sort(sorted);
  auto [known, isNew] = shifts.try_emplace({sorted, devices.vec(), isAllToAll});
  auto &[steps, members] = known->second;
  if (!isNew)
    return known->second;
  AxisMask mask = getAxisMask(axes);
  std::map<int64_t, std::vector<int64_t>> groups; // by lowest coordinates
  for (int64_t device : devices)
    groups[topology.getFirstOfGroup(device, mask)].push_back(device);
  members = 1;
  for (const auto &[first, group] : groups)
    members = std::max<int64_t>(members, group.size());
  int64_t last = isAllToAll ? members - 1 : std::min<int64_t>(members - 1, 1);
  for (int64_t shift = 1; shift <= last; ++shift) {
    Messages messages;
    for (const auto &[first, group] : groups)
      for (size_t i = 0; i < group.size(); ++i)
        messages.emplace_back(group[i], group[(i + shift) % group.size()]);
    steps.push_back(getStep(messages));
  }
  if (isAllToAll || steps.empty())
    return known->second;
  steps.front().latency = 0;
  for (const auto &[first, group] : groups)
    steps.front().latency =
        std::max(steps.front().latency, topology.getRingLatency(group));
  return known->second;
}

Traffic LinkTraffic::getTraffic(const Communication &collective,
                                ArrayRef<int64_t> devices) {
  auto bytes = double(collective.bytes);
  if (collective.kind == CommunicationKind::Permute) {
    // Members are ordered by their coordinates, the first axis slowest.
    std::map<int64_t, std::map<int64_t, int64_t>> groups;
    AxisMask mask = getAxisMask(collective.axes);
    for (int64_t device : devices) {
      int64_t member = 0;
      for (unsigned axis : collective.axes)
        member = member * topology.getAxisSizes()[axis] +
                 topology.getCoordinate(device, axis);
      groups[topology.getFirstOfGroup(device, mask)][member] = device;
    }
    Messages messages;
    for (const auto &[first, group] : groups)
      for (auto [member, device] : group)
        if (member < int64_t(collective.sources.size()))
          if (auto source = group.find(collective.sources[member]);
              source != group.end())
            messages.emplace_back(source->second, device);
    return getTransfer(messages, collective.bytes);
  }

  bool isAllToAll = collective.kind == CommunicationKind::AllToAll;
  auto [steps, members] = getShifts(collective.axes, devices, isAllToAll);
  Traffic traffic;
  if (members == 1)
    return traffic;
  auto add = [&, &steps = steps](RingSteps ring) {
    auto count = double(ring.count);
    traffic.push_back({count * steps[0].latency,
                       count * double(ring.blockBytes), steps[0].pattern});
  };
  switch (collective.kind) {
  case CommunicationKind::AllReduce:
    add(getAllReduceRing(members, collective.bytes));
    break;
  case CommunicationKind::AllGather:
  case CommunicationKind::ReduceScatter:
    add(getPartRing(members, collective.bytes));
    break;
  case CommunicationKind::AllToAll:
    for (Step step : steps)
      traffic.push_back({step.latency, bytes, step.pattern});
    break;
  case CommunicationKind::Broadcast:
    traffic.push_back(
        {double(members - 1) * steps[0].latency, bytes, steps[0].pattern});
    break;
  case CommunicationKind::Permute:
  case CommunicationKind::Transfer:
    break;
  }
  return traffic;
}

Traffic LinkTraffic::getTransfer(const Messages &messages, int64_t bytes) {
  Step step = getStep(messages);
  if (step.pattern < 0)
    return {};
  return {TrafficPhase{step.latency, double(bytes), step.pattern}};
}

double LinkTraffic::getSeconds(const Traffic &traffic) const {
  double seconds = 0;
  for (const TrafficPhase &phase : traffic)
    seconds += phase.latency +
               (phase.pattern < 0 ? 0 : phase.bytes * alone[phase.pattern]);
  return seconds;
}

ArrayRef<double> LinkTraffic::getPaces(ArrayRef<int> active) {
  if (active.size() == 1)
    return ArrayRef<double>(alone).slice(active[0], 1);
  auto [known, isNew] = paces.try_emplace(active.vec());
  if (!isNew)
    return known->second;
  std::vector<int64_t> messages(capacities.size());
  for (int pattern : active)
    for (Load load : patterns[pattern])
      messages[load.link] += load.messages;
  for (int pattern : active) {
    double pace = 0;
    for (Load load : patterns[pattern])
      pace =
          std::max(pace, double(messages[load.link]) / capacities[load.link]);
    known->second.push_back(pace);
  }
  return known->second;
}

std::vector<double> LinkTraffic::getBusiestLinks(ArrayRef<double> bytes) const {
  std::vector<double> seconds(capacities.size());
  for (auto [pattern, count] : llvm::enumerate(bytes))
    for (Load load : patterns[pattern])
      seconds[load.link] +=
          count * double(load.messages) / capacities[load.link];
  std::vector<double> busiest(topology.getCluster().levels.size());
  for (auto [link, time] : llvm::enumerate(seconds))
    busiest[levels[link]] = std::max(busiest[levels[link]], time);
  return busiest;
}
