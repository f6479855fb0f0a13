//===- ReshardingRelays.cpp - Two permutes in a row -----------------------===//

#include "PermuteSources.h"
#include "RelaySearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <limits>

using namespace heddle;
using llvm::ArrayRef;

static int64_t toPicoseconds(CollectiveCost cost) {
  return std::llround(cost.seconds * 1e12);
}

/// Less than that, so that rounding adds nothing.
static int64_t toLeastPicoseconds(double seconds) {
  return int64_t(seconds * 1e12 * (1 - 1e-9));
}

RelaySearch::RelaySearch(ReshardingMoves &moves, const HeldTensor &from,
                         const PermuteGoal &goal, AxisMask aligned,
                         int64_t below)
    : moves(moves), topology(moves.topology), from(from), goal(goal),
      aligned(aligned), below(below), devices(topology.getNumDevices()),
      setOfDevice(moves.summands.getSets(from.summands)),
      numSummands(moves.summands[from.summands].holders.size()) {
  isPossible = moves.getLocalShape(from) == moves.getLocalShape({goal.rows}) &&
               (moves.isWhole(from) || goal.partial) &&
               moves.isThere(from, goal);
  if (!isPossible)
    return;
  const Cluster &cluster = topology.getCluster();
  bytes = double(moves.getBytes(from));
  launch = cluster.device.launch;
  leastMove = std::numeric_limits<double>::infinity();
  for (const ClusterLevel &level : cluster.levels)
    leastMove =
        std::min(leastMove, level.latency + bytes / level.getUnitBandwidth());
  const std::vector<unsigned> contents = moves.getContents(from.rows);
  wanted = moves.getContents(goal.rows);
  for (int64_t device = 0; device < devices; ++device) {
    uint64_t set = 0;
    for (unsigned summand : setOfDevice[device])
      set |= uint64_t(1) << summand;
    valueOf.push_back(-1);
    if (contents[device] == 0 || set == 0)
      continue;
    Value value{contents[device], set};
    auto known = llvm::find(values, value);
    valueOf.back() = int(known - values.begin());
    if (known == values.end())
      values.push_back(value);
    largestSet = std::max<size_t>(largestSet, llvm::popcount(set));
  }
  std::map<int64_t, size_t> numbers;
  for (int64_t device = 0; device < devices; ++device) {
    if (wanted[device] == 0)
      continue;
    auto [known, isNew] = numbers.try_emplace(
        topology.getFirstOfGroup(device, goal.partial), groups.size());
    if (isNew)
      groups.push_back({wanted[device], {}});
    groups[known->second].members.push_back(device);
  }
  for (int64_t device = 0; device < devices; ++device) {
    choices.push_back({valueOf[device]});
    for (int value = 0; value < int(values.size()); ++value)
      if (value != valueOf[device] &&
          llvm::is_contained(wanted, values[value].content))
        choices.back().push_back(value);
  }
  // Of messages over several levels' links, each level takes a part.
  double bandwidth = 0, latency = std::numeric_limits<double>::infinity();
  for (int i = topology.getMeetingLevel(0, devices - 1); i >= 0; --i) {
    bandwidth += cluster.levels[i].getUnitBandwidth();
    latency = std::min(latency, cluster.levels[i].latency);
    Level level{topology.getUnitSize(unsigned(i)), latency, bytes / bandwidth};
    level.unitsOfValue.resize(values.size());
    level.crossed.resize(values.size());
    level.incoming.resize(devices);
    for (int64_t device = 0; device < devices; ++device)
      if (valueOf[device] >= 0)
        level.unitsOfValue[valueOf[device]] |= uint64_t(1)
                                               << device / level.unitSize;
    for (const Group &group : groups) {
      level.unitsOfGroup.push_back(0);
      for (int64_t member : group.members)
        level.unitsOfGroup.back() |= uint64_t(1) << member / level.unitSize;
    }
    levels.push_back(std::move(level));
  }
}

/// One permute is at least as good as two if no value is needed twice and no
/// inner link is worse than an outer one, since each of its messages is one of
/// theirs. Of a maximum, all devices of a group receive, if only the same.
bool RelaySearch::isUseful() const {
  bool isOrdered =
      llvm::is_sorted(topology.getCluster().levels,
                      [](const ClusterLevel &a, const ClusterLevel &b) {
                        return a.latency < b.latency ||
                               a.getUnitBandwidth() > b.getUnitBandwidth();
                      });
  if (!isOrdered || (goal.partial && from.isMax))
    return true;
  std::map<unsigned, unsigned> uses;
  for (const Group &group : groups) {
    int own = valueOf[group.members.front()];
    if (goal.partial || own < 0 || values[own].content != group.content)
      if (++uses[group.content] > 1)
        return true;
  }
  return false;
}

int64_t RelaySearch::countMissing(const Level &level, size_t number,
                                  const std::vector<int> &valueOfDevice) const {
  // What the members' units have, and how much of it the members can take.
  const Group &group = groups[number];
  uint64_t all = 0;
  size_t taken = 0;
  for (int64_t first = 0; first < devices; first += level.unitSize) {
    if (!(level.unitsOfGroup[number] >> first / level.unitSize & 1))
      continue;
    uint64_t there = 0;
    int64_t end = std::min(devices, first + level.unitSize);
    for (int64_t device = first; device < end; ++device)
      if (int value = valueOfDevice[device];
          value >= 0 && values[value].content == group.content)
        there |= values[value].summands;
    size_t members = llvm::count_if(group.members, [&](int64_t member) {
      return first <= member && member < end;
    });
    all |= there;
    taken += std::min<size_t>(members * largestSet, llvm::popcount(there));
  }
  taken = std::min<size_t>(taken, llvm::popcount(all));
  return int64_t(llvm::divideCeil(numSummands - taken, largestSet));
}

/// Of a permute, without the launch.
double RelaySearch::getSeconds(const Level &level, int64_t messages) const {
  if (messages == 0)
    return leastMove;
  return std::max(leastMove,
                  level.latency + double(messages) * level.secondsPerMessage);
}

/// Messages into the busiest of some units at least.
static int64_t getBusiest(const std::map<uint64_t, int64_t> &messages) {
  int64_t most = 0;
  for (auto [units, count] : messages)
    most = std::max(
        most, int64_t(llvm::divideCeil(count, int64_t(llvm::popcount(units)))));
  return most;
}

/// Seconds of both permutes at least.
double RelaySearch::getLeast() const {
  double least = 2 * leastMove;
  for (const Level &level : levels) {
    // Groups that need the same rows may share messages.
    std::map<std::pair<uint64_t, unsigned>, int64_t> needed;
    for (auto [i, group] : llvm::enumerate(groups)) {
      int64_t &most = needed[{level.unitsOfGroup[i], group.content}];
      most = std::max(most, countMissing(level, i, valueOf));
    }
    std::map<uint64_t, int64_t> sums;
    for (auto [key, count] : needed)
      sums[key.first] += count;
    // They come by one of the permutes or by both.
    int64_t messages = getBusiest(sums);
    double both = 2 * level.latency + double(std::max<int64_t>(2, messages)) *
                                          level.secondsPerMessage;
    least = std::max(least,
                     std::min(getSeconds(level, messages) + leastMove, both));
  }
  return 2 * launch + least;
}

double RelaySearch::getLeastSecond(int64_t chosen) const {
  double least = leastMove;
  for (const Level &level : levels) {
    if (level.unitSize == 1 || (chosen < devices && chosen % level.unitSize))
      continue;
    int64_t units = int64_t(llvm::divideCeil(chosen, level.unitSize));
    std::map<uint64_t, int64_t> missing;
    for (size_t i = 0; i < groups.size(); ++i)
      if (level.unitsOfGroup[i] >> units == 0)
        missing[level.unitsOfGroup[i]] += countMissing(level, i, given);
    least = std::max(least, getSeconds(level, getBusiest(missing)));
  }
  return least;
}

/// What one device more makes of the load; `by`: 1, or -1 to take it back.
RelaySearch::Load RelaySearch::add(Load load, int64_t device, int value,
                                   int64_t by) {
  if (value == valueOf[device])
    return load;
  Load nearest{std::numeric_limits<double>::infinity(),
               std::numeric_limits<double>::infinity()};
  for (int64_t source = 0; source < devices; ++source)
    if (valueOf[source] == value) {
      const ClusterLevel &link =
          topology.getCluster()
              .levels[topology.getMeetingLevel(source, device)];
      nearest.latency = std::min(nearest.latency, link.latency);
      nearest.seconds =
          std::min(nearest.seconds, bytes / link.getUnitBandwidth());
    }
  load.latency = std::max(load.latency, nearest.latency);
  load.seconds = std::max(load.seconds, nearest.seconds);
  for (Level &level : levels) {
    int64_t unit = device / level.unitSize;
    uint64_t holders = level.unitsOfValue[value];
    if (holders >> unit & 1)
      continue;
    // What comes in, and what goes out of the units that have it.
    level.incoming[unit] += by;
    level.crossed[value] += by;
    int64_t out = int64_t(llvm::divideCeil(level.crossed[value],
                                           int64_t(llvm::popcount(holders))));
    load.seconds =
        std::max(load.seconds, double(std::max(level.incoming[unit], out)) *
                                   level.secondsPerMessage);
  }
  return load;
}

void RelaySearch::assign(int64_t device, Load load, double second) {
  // Limits of what is tried: more was never needed on two levels.
  constexpr int64_t mostVisited = 20000, mostWeighed = 64;
  if (++visited > mostVisited || weighed > mostWeighed)
    return;
  double first = std::max(load.latency + load.seconds, leastMove);
  second = std::max(second, getLeastSecond(device));
  if (toLeastPicoseconds(std::max(2 * launch + first + second, leastBoth)) >=
      below)
    return;
  if (device == devices) {
    if (given != valueOf)
      weigh(launch + first, launch + second);
    return;
  }
  for (int value : choices[device]) {
    given[device] = value;
    assign(device + 1, add(load, device, value, 1), second);
    add(load, device, value, -1);
  }
  given[device] = valueOf[device];
}

/// What the permutes take that go with what each device is given first.
void RelaySearch::weigh(double leastFirst, double leastSecond) {
  ++weighed;
  int64_t size = moves.getBytes(from);
  auto rest = [&](double other) { return double(below) * 1e-12 - other; };
  PermuteSources second(topology, size);
  std::vector<int64_t> groupOf(devices, -1), models(devices);
  std::map<int64_t, int64_t> firsts; // the models of aligned groups
  std::vector<std::vector<unsigned>> sets(devices);
  for (int64_t device = 0; device < devices; ++device) {
    models[device] = device;
    if (given[device] >= 0)
      for (unsigned summand = 0; summand < numSummands; ++summand)
        if (values[given[device]].summands >> summand & 1)
          sets[device].push_back(summand);
    std::vector<int64_t> &candidates = second.getCandidates()[device];
    if (wanted[device] == 0) {
      candidates = {given[device] < 0 ? device : -1};
      continue;
    }
    if (goal.partial) {
      groupOf[device] = topology.getFirstOfGroup(device, goal.partial);
      models[device] =
          firsts.try_emplace(topology.getFirstOfGroup(device, aligned), device)
              .first->second;
    }
    auto isFit = [&](int64_t source) {
      return given[source] >= 0 &&
             values[given[source]].content == wanted[device];
    };
    if (!goal.partial && isFit(device)) {
      candidates = {device};
      continue;
    }
    for (int64_t source = 0; source < devices; ++source)
      if (isFit(source))
        candidates.push_back(source);
    if (goal.partial && !from.isMax)
      candidates.push_back(-1);
    if (candidates.empty())
      return;
  }
  if (goal.partial)
    second.setSummands(sets, groupOf, models,
                       std::vector<int64_t>(devices, int64_t(numSummands)),
                       !from.isMax);
  ArrayRef<int64_t> after = second.find(leastSecond, rest(leastFirst));
  if (after.empty())
    return;
  CollectiveCost secondCost = topology.permute(after, size);

  PermuteSources first(topology, size);
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<int64_t> &candidates = first.getCandidates()[device];
    if (given[device] == valueOf[device]) {
      candidates = {device};
      continue;
    }
    for (int64_t source = 0; source < devices; ++source)
      if (valueOf[source] == given[device])
        candidates.push_back(source);
  }
  ArrayRef<int64_t> before = first.find(leastFirst, rest(secondCost.seconds));
  if (before.empty())
    return;
  int64_t sum =
      toPicoseconds(topology.permute(before, size)) + toPicoseconds(secondCost);
  if (sum >= below)
    return;
  below = sum;
  best = build(before, after);
}

std::vector<Move> RelaySearch::build(ArrayRef<int64_t> first,
                                     ArrayRef<int64_t> second) {
  Move relay{ReshardingStep::Permute, {}};
  relay.sources = first.vec();
  relay.cost = topology.permute(first, moves.getBytes(from));
  relay.after = from;
  for (auto [dim, rows] : llvm::zip(moves.dims, relay.after.rows))
    rows = dim.permute(rows, relay.sources);
  if (!moves.isWhole(from)) {
    std::vector<std::vector<unsigned>> held;
    for (int64_t source : first)
      held.push_back(setOfDevice[source]);
    relay.after.summands = moves.summands.ofSets(held);
  }
  Move last{ReshardingStep::Permute, {}};
  last.sources = second.vec();
  last.cost = topology.permute(second, moves.getBytes(from));
  last.after = moves.getPermuted(relay.after, goal, aligned, second);
  return {std::move(relay), std::move(last)};
}

std::vector<Move> RelaySearch::find() {
  if (!isPossible || !isUseful())
    return {};
  leastBoth = getLeast();
  given = valueOf;
  assign(0, {}, 0);
  return std::move(best);
}

/// One permute is at least as good as the two that make it up where all values
/// over one link take less than a launch.
bool ReshardingMoves::mayRelay(const HeldTensor &held) const {
  const Cluster &cluster = topology.getCluster();
  double bytes = double(getBytes(held));
  double longest = 2 * bytes / cluster.device.memoryBandwidth;
  for (const ClusterLevel &level : cluster.levels)
    longest = std::max(longest, double(topology.getNumDevices()) * bytes /
                                    level.getUnitBandwidth());
  bool isOrdered = llvm::is_sorted(
      cluster.levels, [](const ClusterLevel &a, const ClusterLevel &b) {
        return a.latency < b.latency;
      });
  return topology.getNumDevices() > 1 &&
         (longest >= cluster.device.launch || !isOrdered);
}

std::vector<Move> ReshardingMoves::relay(const HeldTensor &from,
                                         const HeldTensor &to,
                                         const TensorLayout &layout,
                                         bool mayFollow, int64_t below) {
  int64_t least = 2 * getLeastPermute(from);
  if (!mayRelay(from) || below <= least)
    return {};
  std::vector<Move> best;
  auto tryGoal = [&](const PermuteGoal &goal, ArrayRef<Move> ops,
                     int64_t picoseconds) {
    if (below <= least + picoseconds)
      return;
    for (AxisMask aligned :
         ops.empty() ? std::vector<AxisMask>{0} : getAlignments(goal)) {
      std::vector<Move> found = followBy(
          RelaySearch(*this, from, goal, aligned, below - picoseconds).find(),
          ops, to, layout);
      if (found.empty())
        continue;
      best = std::move(found);
      below = 0;
      for (const Move &move : best)
        below += toPicoseconds(move.cost);
    }
  };
  // A whole value is its own maximum.
  bool isWhole = this->isWhole(to) || (layout.isMax && this->isWhole(from));
  PermuteGoal wanted{to.rows, isWhole ? 0 : layout.partial};
  if (this->isWhole(from) || from.isMax == layout.isMax)
    tryGoal(wanted, {}, 0);
  if (!mayFollow)
    return best;
  const std::vector<int64_t> shapeFrom = getLocalShape(from);
  forEachBefore(wanted, &shapeFrom, layout.isMax,
                [&](const PermuteGoal &goal, const Move &op) {
                  tryGoal(goal, {op}, toPicoseconds(op.cost));
                });
  return best;
}
