//===- ReshardingPermutes.cpp - Who receives from whom --------------------===//

#include "ReshardingMoves.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

using namespace heddle;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

namespace {
/// Chooses a source for each device: by branch and bound, on at most eight
/// devices; on more of them the first complete choice.
class Sources {
public:
  Sources(const MeshTopology &topology, int64_t bytes)
      : topology(topology), bytes(bytes), candidates(topology.getNumDevices()),
        out(topology.getCluster().levels.size(),
            std::vector<int64_t>(topology.getNumDevices())),
        in(out), uses(topology.getNumDevices()),
        chosen(topology.getNumDevices(), -1),
        mostVisited(topology.getNumDevices() > 8 ? 8 * topology.getNumDevices()
                                                 : 20000) {}

  /// Of each device, from which it may receive; -1: zeros.
  std::vector<std::vector<int64_t>> &getCandidates() { return candidates; }

  /// Of a sum: the summands of each device's value, and the group in which each
  /// summand has to be once (`once`) or more often; -1: in none. A device has
  /// the same summands as its model, which comes before it or is itself.
  void setSummands(std::vector<std::vector<unsigned>> summandSets,
                   std::vector<int64_t> groupOfDevice,
                   std::vector<int64_t> modelOfDevice, size_t count,
                   bool once) {
    sets = std::move(summandSets);
    groups = std::move(groupOfDevice);
    models = std::move(modelOfDevice);
    isOnce = once;
    present.assign(topology.getNumDevices(), std::vector<int64_t>(count));
    missing.assign(topology.getNumDevices(), int64_t(count));
    members.assign(topology.getNumDevices(), 0);
    for (int64_t group : groups)
      if (group >= 0)
        ++members[group];
  }

  bool find(double least) {
    lowest = least;
    visit(0, {});
    return !best.empty();
  }
  ArrayRef<int64_t> getBest() const { return best; }

private:
  struct Load {
    double latency = 0, secondsPerByte = 0;
    bool isLocal = false;
  };

  double getSeconds(const Load &load) const {
    double seconds = load.latency + double(bytes) * load.secondsPerByte;
    if (load.isLocal)
      seconds =
          std::max(seconds, 2 * double(bytes) /
                                topology.getCluster().device.memoryBandwidth);
    return topology.getCluster().device.launch + seconds;
  }

  int64_t countCrossed(int64_t a, int64_t b) const {
    int64_t count = 0;
    for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis)
      count +=
          topology.getCoordinate(a, axis) != topology.getCoordinate(b, axis);
    return count;
  }

  /// What one message more makes of the load.
  Load add(Load load, int64_t device, int64_t source) const {
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

  void count(int64_t device, int64_t source, int64_t by) {
    if (source < 0 || source == device)
      return;
    uses[source] += by;
    int level = topology.getMeetingLevel(device, source);
    int64_t unit = topology.getUnitSize(level);
    out[level][source / unit] += by;
    in[level][device / unit] += by;
  }

  std::vector<unsigned> setOf(int64_t source) const {
    return source < 0 ? std::vector<unsigned>() : sets[source];
  }

  /// Gives a device's group the summands of a source.
  bool enter(int64_t device, int64_t source) {
    int64_t group = groups.empty() ? -1 : groups[device];
    if (group < 0)
      return true;
    if (models[device] < device &&
        setOf(source) != setOf(chosen[models[device]]))
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
  void leave(int64_t device, int64_t source) {
    int64_t group = groups.empty() ? -1 : groups[device];
    if (group < 0)
      return;
    ++members[group];
    if (source >= 0)
      for (unsigned summand : sets[source])
        missing[group] += --present[group][summand] == 0;
  }

  void visit(int64_t device, Load load) {
    if (device == topology.getNumDevices()) {
      best = chosen;
      bestSeconds = getSeconds(load);
      isDone = device > 8 || bestSeconds <= lowest * (1 + 1e-12);
      return;
    }
    struct Choice {
      int64_t source;
      Load load;
      double seconds;
      int64_t crossed, uses;
    };
    std::vector<Choice> choices;
    for (int64_t source : candidates[device]) {
      Load next = add(load, device, source);
      bool isOwn = source < 0 || source == device;
      choices.push_back({source, next, getSeconds(next),
                         isOwn ? 0 : countCrossed(device, source),
                         isOwn ? 0 : uses[source]});
    }
    llvm::sort(choices, [](const Choice &a, const Choice &b) {
      return std::tie(a.seconds, a.crossed, a.uses, a.source) <
             std::tie(b.seconds, b.crossed, b.uses, b.source);
    });
    for (const Choice &choice : choices) {
      if (isDone || ++visited > mostVisited)
        return;
      if (choice.seconds >= bestSeconds || !enter(device, choice.source))
        continue;
      chosen[device] = choice.source;
      count(device, choice.source, 1);
      visit(device + 1, choice.load);
      count(device, choice.source, -1);
      leave(device, choice.source);
    }
  }

  const MeshTopology &topology;
  int64_t bytes;
  std::vector<std::vector<int64_t>> candidates;
  std::vector<std::vector<int64_t>> out, in; ///< messages by level and unit
  std::vector<int64_t> uses, chosen, best;
  double bestSeconds = std::numeric_limits<double>::infinity(), lowest = 0;
  bool isDone = false, isOnce = true;
  int64_t visited = 0, mostVisited;
  std::vector<std::vector<unsigned>> sets;
  std::vector<int64_t> groups, models;
  std::vector<int64_t> missing, members;     ///< of each group
  std::vector<std::vector<int64_t>> present; ///< by group and summand
};
} // namespace

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
  std::map<std::pair<int64_t, size_t>, Nearest> wanted;
  for (int64_t device = 0; device < int64_t(after.size()); ++device) {
    if (after[device] == 0 ||
        (!goal.partial && before[device] == after[device])) {
      isLocal = true;
      continue;
    }
    if (!goal.partial) {
      Nearest &nearest = wanted[{device, 0}];
      for (int64_t source = 0; source < int64_t(after.size()); ++source)
        if (before[source] == after[device])
          bringTo(device, source, nearest);
      continue;
    }
    int64_t group = topology.getFirstOfGroup(device, goal.partial);
    for (auto [summand, holders] :
         llvm::enumerate(summands[held.summands].holders)) {
      Nearest &nearest = wanted[{group, summand}];
      for (int64_t source = 0; source < int64_t(after.size()); ++source)
        if (before[source] == after[device] && holders[source])
          bringTo(device, source, nearest);
    }
  }
  for (const auto &[place, nearest] : wanted) {
    if (nearest.latency == std::numeric_limits<double>::infinity())
      return std::nullopt;
    latency = std::max(latency, nearest.latency);
    secondsPerByte = std::max(secondsPerByte, nearest.secondsPerByte);
  }
  double bytes = double(getBytes(held));
  double seconds = latency + bytes * secondsPerByte;
  if (isLocal)
    seconds = std::max(seconds, 2 * bytes / cluster.device.memoryBandwidth);
  return cluster.device.launch + seconds;
}

std::optional<Move> ReshardingMoves::permute(const HeldTensor &before,
                                             const PermuteGoal &goal,
                                             bool isAligned) {
  int64_t devices = topology.getNumDevices();
  int64_t bytes = getBytes(before);
  const std::vector<unsigned> from = getContents(before.rows);
  const std::vector<unsigned> to = getContents(goal.rows);
  std::map<unsigned, std::vector<int64_t>> holders;
  for (int64_t device = 0; device < devices; ++device)
    holders[from[device]].push_back(device);
  Sources search(topology, bytes);
  bool isPartial = goal.partial;
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<int64_t> &candidates = search.getCandidates()[device];
    if (to[device] == 0)
      candidates = {from[device] == 0 ? device : -1};
    else if (!isPartial && from[device] == to[device])
      candidates = {device};
    else
      candidates = holders[to[device]];
    if (to[device] != 0 && isPartial && !before.isMax)
      candidates.push_back(-1);
  }
  std::vector<std::vector<unsigned>> sets;
  std::vector<int64_t> groups(devices, -1), models(devices);
  size_t count = summands[before.summands].holders.size();
  if (isPartial) {
    sets = summands.getSets(before.summands);
    std::map<int64_t, int64_t> firsts;
    for (int64_t device = 0; device < devices; ++device) {
      models[device] = device;
      if (to[device] == 0)
        continue;
      groups[device] = topology.getFirstOfGroup(device, goal.partial);
      if (isAligned)
        models[device] =
            firsts
                .try_emplace(topology.getFirstOfGroup(device, ~goal.partial),
                             device)
                .first->second;
    }
    search.setSummands(sets, groups, models, count, !before.isMax);
  }
  if (!search.find(getLeastSeconds(before, goal).value_or(0)))
    return std::nullopt;
  Move move{ReshardingStep::Permute, {}};
  move.sources.assign(search.getBest().begin(), search.getBest().end());
  move.after = before;
  move.after.rows = goal.rows;
  if (isPartial) {
    // Where there is only padding, any summand will do.
    std::vector<std::vector<unsigned>> after(devices);
    std::map<int64_t, unsigned> next;
    for (int64_t device = 0; device < devices; ++device) {
      int64_t source = move.sources[device];
      if (groups[device] >= 0)
        after[device] = source < 0 ? std::vector<unsigned>() : sets[source];
      else if (unsigned summand =
                   next[topology.getFirstOfGroup(device, goal.partial)]++;
               summand < count)
        after[device] = {summand};
    }
    move.after.summands = summands.ofSets(after);
  }
  move.cost = topology.permute(move.sources, bytes);
  return move;
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
