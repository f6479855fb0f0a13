//===- ReshardingPermutes.cpp - Who receives from whom --------------------===//

#include "PermuteSources.h"
#include "ReshardingMoves.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

using namespace heddle;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Permutes
//===----------------------------------------------------------------------===//

const std::vector<unsigned> &
ReshardingMoves::getContents(const std::vector<unsigned> &rows) {
  auto [known, isNew] = contents.try_emplace(rows);
  if (!isNew)
    return known->second;
  for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
    uint64_t hash = 0;
    bool isNothing = false;
    for (auto [dim, number] : llvm::zip(dims, rows)) {
      const DimensionRows::State &state = dim[number];
      hash = llvm::hash_combine(hash, state.hashes[device], state.rows);
      isNothing |= state.held[device].size() == 1 &&
                   state.held[device].front().first < 0;
    }
    known->second.push_back(
        isNothing ? 0
                  : contentNumbers
                        .try_emplace(hash, unsigned(contentNumbers.size()) + 1)
                        .first->second);
  }
  return known->second;
}

std::vector<std::pair<const PermuteGoal *, double>>
ReshardingMoves::getPermutes(const HeldTensor &held) {
  std::vector<std::pair<const PermuteGoal *, double>> possible;
  auto known = goals.find(getLocalShape(held));
  if (known == goals.end())
    return possible;
  const std::vector<unsigned> before = getContents(held.rows);
  std::vector<bool> isThere;
  auto mark = [&](unsigned content) {
    if (isThere.size() <= content)
      isThere.resize(content + 1);
    isThere[content] = true;
  };
  mark(0);
  for (unsigned content : before)
    mark(content);
  bool isWhole = this->isWhole(held);
  for (const PermuteGoal &goal : known->second) {
    if (!isWhole && !goal.partial)
      continue;
    if (isWhole && goal.partial && topology.getNumDevices() > 8)
      continue;
    if (isWhole && !goal.partial && goal.rows == held.rows)
      continue;
    const std::vector<unsigned> &after = getContents(goal.rows);
    if (llvm::any_of(after, [&](unsigned content) {
          return content >= isThere.size() || !isThere[content];
        }))
      continue;
    std::optional<double> least = getLeastSeconds(held, goal);
    if (least)
      possible.emplace_back(&goal, *least);
  }
  return possible;
}

bool ReshardingMoves::isThere(const HeldTensor &held, const PermuteGoal &goal) {
  const std::vector<unsigned> before = getContents(held.rows);
  return llvm::all_of(getContents(goal.rows), [&](unsigned content) {
    return content == 0 || llvm::is_contained(before, content);
  });
}

/// The lowest level at which a device meets one that holds that; -1: none does.
int ReshardingMoves::getNearestLevel(const std::vector<unsigned> &rows,
                                     int64_t device, unsigned content) {
  const std::vector<unsigned> &held = getContents(rows);
  size_t levels = topology.getCluster().levels.size();
  auto unitOf = [&](int64_t device, size_t level) {
    return level + 1 < levels ? device / topology.getUnitSize(level + 1) : 0;
  };
  if (placesOf != rows) {
    placesOf = rows;
    places.clear();
    for (int64_t i = 0; i < topology.getNumDevices(); ++i)
      for (size_t level = 0; level < levels; ++level)
        places.insert({{unsigned(level), held[i]}, unitOf(i, level)});
  }
  for (size_t level = 0; level < levels; ++level)
    if (places.contains({{unsigned(level), content}, unitOf(device, level)}))
      return int(level);
  return -1;
}

std::optional<double>
ReshardingMoves::getLeastSeconds(const HeldTensor &held,
                                 const PermuteGoal &goal) {
  const std::vector<unsigned> before = getContents(held.rows);
  const std::vector<unsigned> &after = getContents(goal.rows);
  const Cluster &cluster = topology.getCluster();
  double latency = 0, secondsPerByte = 0;
  bool isLocal = false;
  // At best from the nearest: every device, or of a partial sum what brings a
  // summand to some device of a group.
  struct Nearest {
    double latency = std::numeric_limits<double>::infinity();
    double secondsPerByte = std::numeric_limits<double>::infinity();
  };
  auto bringTo = [&](int64_t device, int64_t source, Nearest &nearest) {
    if (source == device) {
      nearest = {0, 0};
      return;
    }
    const ClusterLevel &link =
        cluster.levels[topology.getMeetingLevel(source, device)];
    nearest.latency = std::min(nearest.latency, link.latency);
    nearest.secondsPerByte =
        std::min(nearest.secondsPerByte, 1 / link.getUnitBandwidth());
  };
  Nearest nearestOfAll;
  std::vector<std::vector<int64_t>> holders; // of each summand
  if (goal.partial)
    for (const std::vector<bool> &bits : summands[held.summands].holders) {
      holders.emplace_back();
      for (int64_t device = 0; device < int64_t(bits.size()); ++device)
        if (bits[device])
          holders.back().push_back(device);
    }
  // By device, or by group and summand.
  std::vector<std::optional<Nearest>> wanted(
      after.size() * std::max<size_t>(1, holders.size()));
  for (int64_t device = 0; device < int64_t(after.size()); ++device) {
    if (after[device] == 0 ||
        (!goal.partial && before[device] == after[device])) {
      isLocal = true;
      continue;
    }
    if (!goal.partial && topology.getNumDevices() > 64) {
      int level = getNearestLevel(held.rows, device, after[device]);
      for (size_t i = level; level >= 0 && i < cluster.levels.size(); ++i) {
        nearestOfAll.latency =
            std::min(nearestOfAll.latency, cluster.levels[i].latency);
        nearestOfAll.secondsPerByte =
            std::min(nearestOfAll.secondsPerByte,
                     1 / cluster.levels[i].getUnitBandwidth());
      }
      if (level < 0)
        return std::nullopt;
      latency = std::max(latency, nearestOfAll.latency);
      secondsPerByte = std::max(secondsPerByte, nearestOfAll.secondsPerByte);
      nearestOfAll = {};
      continue;
    }
    if (!goal.partial) {
      Nearest &nearest = wanted[device].emplace();
      for (int64_t source = 0; source < int64_t(after.size()); ++source)
        if (before[source] == after[device])
          bringTo(device, source, nearest);
      continue;
    }
    int64_t group = topology.getFirstOfGroup(device, goal.partial);
    for (auto [summand, sources] : llvm::enumerate(holders)) {
      std::optional<Nearest> &nearest =
          wanted[group * holders.size() + summand];
      if (!nearest)
        nearest.emplace();
      for (int64_t source : sources)
        if (before[source] == after[device])
          bringTo(device, source, *nearest);
    }
  }
  for (const std::optional<Nearest> &nearest : wanted) {
    if (!nearest)
      continue;
    if (nearest->latency == std::numeric_limits<double>::infinity())
      return std::nullopt;
    latency = std::max(latency, nearest->latency);
    secondsPerByte = std::max(secondsPerByte, nearest->secondsPerByte);
  }
  double bytes = double(getBytes(held));
  double seconds = latency + bytes * secondsPerByte;
  if (isLocal)
    seconds = std::max(seconds, 2 * bytes / cluster.device.memoryBandwidth);
  return cluster.device.launch + seconds;
}

/// Of many devices, those with numbers next to one: they are near.
static std::vector<int64_t> getSome(const std::vector<int64_t> &holders,
                                    int64_t device) {
  constexpr int64_t most = 64;
  int64_t count = int64_t(holders.size());
  if (count <= most)
    return holders;
  int64_t at = llvm::lower_bound(holders, device) - holders.begin();
  auto first =
      holders.begin() + std::clamp<int64_t>(at - most / 2, 0, count - most);
  return {first, first + most};
}

std::vector<AxisMask>
ReshardingMoves::getAlignments(const PermuteGoal &goal) const {
  if (!goal.partial)
    return {0};
  AxisMask others = movable & ~goal.partial;
  if (!isSmall())
    return {~goal.partial, 0};
  std::vector<AxisMask> alignments;
  for (AxisMask axes = others; axes; axes = (axes - 1) & others)
    alignments.push_back(axes);
  alignments.push_back(0);
  return alignments;
}

std::optional<Move> ReshardingMoves::permute(const HeldTensor &before,
                                             const PermuteGoal &goal,
                                             AxisMask aligned) {
  int64_t devices = topology.getNumDevices();
  int64_t bytes = getBytes(before);
  const std::vector<unsigned> from = getContents(before.rows);
  const std::vector<unsigned> to = getContents(goal.rows);
  std::map<unsigned, std::vector<int64_t>> holders;
  for (int64_t device = 0; device < devices; ++device)
    holders[from[device]].push_back(device);
  PermuteSources search(topology, bytes);
  bool isPartial = goal.partial;
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<int64_t> &candidates = search.getCandidates()[device];
    if (to[device] == 0)
      candidates = {from[device] == 0 ? device : -1};
    else if (!isPartial && from[device] == to[device])
      candidates = {device};
    else
      candidates = getSome(holders[to[device]], device);
    if (to[device] != 0 && isPartial && !before.isMax)
      candidates.push_back(-1);
  }
  if (isPartial) {
    std::vector<int64_t> groups(devices, -1), models(devices);
    size_t count = summands[before.summands].holders.size();
    std::map<int64_t, int64_t> firsts; // the models of aligned groups
    for (int64_t device = 0; device < devices; ++device) {
      models[device] = device;
      if (to[device] == 0)
        continue;
      groups[device] = topology.getFirstOfGroup(device, goal.partial);
      models[device] =
          firsts.try_emplace(topology.getFirstOfGroup(device, aligned), device)
              .first->second;
    }
    search.setSummands(summands.getSets(before.summands), groups, models,
                       std::vector<int64_t>(devices, int64_t(count)),
                       !before.isMax);
  }
  ArrayRef<int64_t> sources =
      search.find(devices > 8 ? 0 : getLeastSeconds(before, goal).value_or(0));
  if (sources.empty())
    return std::nullopt;
  Move move{ReshardingStep::Permute, {}};
  move.sources = sources.vec();
  move.after = getPermuted(before, goal, aligned, move.sources);
  move.cost = topology.permute(move.sources, bytes);
  return move;
}

HeldTensor ReshardingMoves::getPermuted(const HeldTensor &before,
                                        const PermuteGoal &goal,
                                        AxisMask aligned,
                                        ArrayRef<int64_t> sources) {
  HeldTensor held = before;
  held.rows = goal.rows;
  if (!goal.partial)
    return held;
  // Where there is only padding, any summands will do: those of the devices
  // that this one is aligned with.
  int64_t devices = topology.getNumDevices();
  const std::vector<unsigned> contents = getContents(goal.rows);
  const std::vector<std::vector<unsigned>> sets =
      summands.getSets(before.summands);
  size_t count = summands[before.summands].holders.size();
  std::vector<std::vector<unsigned>> after(devices);
  std::map<int64_t, int64_t> firsts; // of aligned groups
  for (int64_t device = 0; device < devices; ++device)
    if (contents[device] != 0)
      firsts.try_emplace(topology.getFirstOfGroup(device, aligned), device);
  std::map<int64_t, unsigned> next;
  for (int64_t device = 0; device < devices; ++device) {
    auto first = firsts.find(topology.getFirstOfGroup(device, aligned));
    int64_t alike = contents[device] != 0   ? device
                    : first != firsts.end() ? first->second
                                            : -1;
    if (alike >= 0 && sources[alike] >= 0)
      after[device] = sets[sources[alike]];
    if (alike >= 0)
      continue;
    if (unsigned summand =
            next[topology.getFirstOfGroup(device, goal.partial)]++;
        summand < count)
      after[device] = {summand};
  }
  held.summands = summands.ofSets(after);
  return held;
}

std::vector<unsigned>
ReshardingMoves::getGroupAxes(const std::vector<int64_t> &sources,
                              std::vector<int64_t> &inGroup) const {
  AxisMask larger = 0, crossed = 0;
  for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis) {
    AxisMask bit = AxisMask(1) << axis;
    larger |= topology.getAxisSizes()[axis] > 1 ? bit : 0;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device)
      if (sources[device] >= 0 &&
          topology.getCoordinate(device, axis) !=
              topology.getCoordinate(sources[device], axis))
        crossed |= bit;
  }
  for (AxisMask axes : {crossed, larger}) {
    if (!axes)
      continue;
    // The members of each group, in the order of device numbers.
    std::map<int64_t, std::vector<int64_t>> groups;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device)
      groups[topology.getFirstOfGroup(device, axes)].push_back(device);
    bool isSame = true;
    inGroup.clear();
    for (const auto &[first, members] : groups) {
      std::vector<int64_t> mine;
      for (int64_t member : members)
        mine.push_back(sources[member] < 0
                           ? -1
                           : llvm::find(members, sources[member]) -
                                 members.begin());
      if (inGroup.empty())
        inGroup = mine;
      isSame &= inGroup == mine;
    }
    if (isSame) {
      std::vector<unsigned> list;
      for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis)
        if (axes >> axis & 1)
          list.push_back(axis);
      return list;
    }
  }
  return {};
}
