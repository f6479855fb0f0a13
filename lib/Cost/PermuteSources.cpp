//===- PermuteSources.cpp - Who receives from whom ------------------------===//

#include "PermuteSources.h"
#include "llvm/ADT/STLExtras.h"

using namespace heddle;
using llvm::ArrayRef;

PermuteSources::PermuteSources(const MeshTopology &topology, int64_t bytes)
    : topology(topology), bytes(bytes), candidates(topology.getNumDevices()),
      out(topology.getCluster().levels.size(),
          std::vector<int64_t>(topology.getNumDevices())),
      in(out), uses(topology.getNumDevices()),
      chosen(topology.getNumDevices(), kNone) {}

void PermuteSources::setSummands(std::vector<std::vector<unsigned>> summandSets,
                                 std::vector<int64_t> groupOfDevice,
                                 std::vector<int64_t> modelOfDevice,
                                 std::vector<int64_t> neededByGroup,
                                 bool once) {
  sets = std::move(summandSets);
  groups = std::move(groupOfDevice);
  models = std::move(modelOfDevice);
  isOnce = once;
  present.assign(topology.getNumDevices(), {});
  missing = std::move(neededByGroup);
  size_t count = 0;
  for (const std::vector<unsigned> &set : sets)
    for (unsigned summand : set)
      count = std::max<size_t>(count, summand + 1);
  members.assign(topology.getNumDevices(), 0);
  for (int64_t group : groups)
    if (group >= 0) {
      ++members[group];
      present[group].resize(count);
    }
}

double PermuteSources::getSeconds(const Load &load) const {
  const ClusterDevice &device = topology.getCluster().device;
  double seconds = load.latency + double(bytes) * load.secondsPerByte;
  if (load.isLocal)
    seconds = std::max(seconds, 2 * double(bytes) / device.memoryBandwidth);
  return device.launch + seconds;
}

int64_t PermuteSources::countCrossed(int64_t a, int64_t b) const {
  int64_t count = 0;
  for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis)
    count += topology.getCoordinate(a, axis) != topology.getCoordinate(b, axis);
  return count;
}

/// What one message more makes of the load.
PermuteSources::Load PermuteSources::add(Load load, int64_t device,
                                         int64_t source) const {
  if (source < 0 || source == device) {
    load.isLocal = true;
    return load;
  }
  int level = topology.getMeetingLevel(device, source);
  const ClusterLevel &link = topology.getCluster().levels[level];
  int64_t unit = topology.getUnitSize(level);
  int64_t most =
      std::max(out[level][source / unit], in[level][device / unit]) + 1;
  load.latency = std::max(load.latency, link.latency);
  load.secondsPerByte =
      std::max(load.secondsPerByte, double(most) / link.getUnitBandwidth());
  return load;
}

void PermuteSources::count(int64_t device, int64_t source, int64_t by) {
  if (source < 0 || source == device)
    return;
  uses[source] += by;
  int level = topology.getMeetingLevel(device, source);
  int64_t unit = topology.getUnitSize(level);
  out[level][source / unit] += by;
  in[level][device / unit] += by;
}

/// Whether two sources (-1: zeros) have the same summands.
bool PermuteSources::hasSameSet(int64_t a, int64_t b) const {
  if (a < 0 || b < 0)
    return (a < 0 || sets[a].empty()) && (b < 0 || sets[b].empty());
  return sets[a] == sets[b];
}

/// Gives a device's group the summands of a source, if it may have them.
bool PermuteSources::enter(int64_t device, int64_t source) {
  int64_t group = groups.empty() ? -1 : groups[device];
  if (group < 0)
    return true;
  if (models[device] < device && !hasSameSet(source, chosen[models[device]]))
    return false;
  if (source >= 0)
    for (unsigned summand : sets[source])
      if (present[group][summand] && isOnce)
        return false;
  --members[group];
  if (source >= 0)
    for (unsigned summand : sets[source])
      missing[group] -= present[group][summand]++ == 0;
  if (members[group] > 0 || missing[group] == 0)
    return true;
  leave(device, source);
  return false;
}

void PermuteSources::leave(int64_t device, int64_t source) {
  int64_t group = groups.empty() ? -1 : groups[device];
  if (group < 0)
    return;
  ++members[group];
  if (source >= 0)
    for (unsigned summand : sets[source])
      missing[group] += --present[group][summand] == 0;
}

/// The choices of a device, what adds least first.
PermuteSources::Frame PermuteSources::open(int64_t device,
                                           const Load &load) const {
  Frame frame;
  for (int64_t source : candidates[device]) {
    Load next = add(load, device, source);
    bool isOwn = source < 0 || source == device;
    frame.choices.push_back({source, next, getSeconds(next),
                             isOwn ? 0 : countCrossed(device, source),
                             isOwn ? 0 : uses[source]});
  }
  llvm::sort(frame.choices, [](const Choice &a, const Choice &b) {
    return std::tie(a.seconds, a.crossed, a.uses, a.source) <
           std::tie(b.seconds, b.crossed, b.uses, b.source);
  });
  return frame;
}

ArrayRef<int64_t> PermuteSources::find(double least, double below) {
  int64_t devices = topology.getNumDevices();
  // A limit of what is tried, far above what is needed.
  int64_t visited = 0, mostVisited = devices > 8 ? 8 * devices : 20000;
  best.clear();
  // The devices before that of the last frame have their sources.
  std::vector<Frame> frames = {open(0, {})};
  while (!frames.empty()) {
    int64_t device = int64_t(frames.size()) - 1;
    Frame &frame = frames.back();
    if (frame.next > 0 && chosen[device] != kNone) {
      count(device, chosen[device], -1);
      leave(device, chosen[device]);
      chosen[device] = kNone;
    }
    if (frame.next == frame.choices.size() ||
        frame.choices[frame.next].seconds >= below) {
      frames.pop_back();
      continue;
    }
    if (++visited > mostVisited)
      break;
    const Choice &choice = frame.choices[frame.next++];
    if (!enter(device, choice.source))
      continue;
    chosen[device] = choice.source;
    count(device, choice.source, 1);
    if (device + 1 < devices) {
      frames.push_back(open(device + 1, choice.load));
      continue;
    }
    best = chosen;
    below = choice.seconds;
    if (devices > 8 || below <= least * (1 + 1e-12))
      break;
  }
  return best;
}
