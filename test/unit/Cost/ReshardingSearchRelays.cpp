//===- ReshardingSearchRelays.cpp - Two permutes in a row -----------------===//
//
// What each device is given by a first permute is tried in all ways, so that a
// second makes a layout of it, but for what cannot be within the bounds:
//
// - Where each link carries every device's value in less than a launch, and
//   outer levels have no less latency than inner ones, the one permute that two
//   make up takes no longer than they do.
// - Nor does it take longer where no two devices (of a sum: groups) need the
//   same rows and no inner link is worse than an outer one: each of its
//   messages is one of theirs, over the same links. (Messages that turn back
//   from an outer level use its links besides, and save nothing.)
// - Into a unit of the outermost level, each value that is needed there and is
//   not there has to come at least once, and after the first permute once for
//   each device that needs it; a step takes the latency and what its messages
//   into the busiest unit take. Of a sum, a group needs each summand once; its
//   members have taken at most what is in their units, and as much as they can
//   hold. What comes into a set of units comes into the busiest of them at
//   least by its share.
//
// Of three permutes in a row, what devices are given by the first is tried in
// the same way, with what the other two take at least.
//
// A device that is given nothing keeps what it has: that takes no longer than
// to receive zeros, and zeros can be had from nowhere later.
//
//===----------------------------------------------------------------------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <limits>
#include <numeric>

using namespace heddle;
using namespace heddle::test;
using llvm::ArrayRef;

class ReshardingSearch::RelaySearch {
public:
  RelaySearch(ReshardingSearch &search, unsigned state, size_t model,
              const Costs &before, const std::vector<Costs> &bounds,
              llvm::function_ref<void(unsigned, const Costs &)> visit)
      : search(search), from(search.states[state]), model(model),
        before(before), bounds(bounds), topology(search.models[model].topology),
        visit(visit) {
    const Cluster &cluster = topology.getCluster();
    top = &cluster.levels[topology.getMeetingLevel(0, search.devices - 1)];
    unitSize = int(topology.getUnitSize(unsigned(top - cluster.levels.data())));
    bytes = double(search.getBytes(from.devices[0]) *
                   search.models[model].elementBytes);
    launch = cluster.device.launch;
    leastMove = std::numeric_limits<double>::infinity();
    for (const ClusterLevel &level : cluster.levels)
      leastMove =
          std::min(leastMove, level.latency + bytes / level.getUnitBandwidth());
    numSummands = llvm::popcount(from.allSummands);
    for (int device = 0; device < search.devices; ++device)
      if (!search.isNothing(from.devices[device]))
        mostSummands = std::max(mostSummands,
                                llvm::popcount(from.devices[device].summands));
  }

  void run(Rest rest) {
    if (isLatencyAll())
      return;
    isChain = rest == Rest::Permute;
    Costs nothing(before.size(), 0);
    Sizes sizes = search.getSizes(from.devices[0]);
    for (unsigned layout = 0; layout < search.layouts.size(); ++layout)
      if (search.getSizes(search.wanted[layout][0]) == sizes)
        addTarget({search.wanted[layout], search.layouts[layout].partial,
                   layout, std::nullopt, &nothing});
    if (rest == Rest::Op) {
      search.makeBackwards(nullptr);
      for (size_t number : search.backwardsOfShape[sizes])
        if (const Backward &backward = search.backwards[number];
            backward.ops.size() == 1)
          addTarget({ArrayRef(backward.wanted).take_front(search.devices),
                     backward.sum, backward.target, number, &backward.costs});
    }
    if (targets.empty())
      return;
    std::vector<unsigned> open(targets.size());
    std::iota(open.begin(), open.end(), 0);
    held = from;
    contents = search.getDistinct(from);
    choose(0, open, 0, 0);
  }

private:
  struct Group {
    std::array<uint16_t, 3> rows = {};
    uint8_t units = 0; ///< bits
    std::array<int8_t, 8> membersOfUnit = {};
    int first = 0; ///< device
  };
  struct Target {
    ArrayRef<Content> wanted;
    AxisMask sum; ///< groups over these axes have each summand once
    unsigned layout;
    std::optional<size_t> backward; ///< how the layout is made of it
    const Costs *after;             ///< what that takes
    std::vector<Group> groups = {};
    uint64_t needed = 0;          ///< bits of rows and summands
    int64_t bound = 0, least = 0; ///< of both permutes
  };

  /// Bits by rows, of which devices hold at most eight, and by summand.
  uint64_t getBits(const Content &content) {
    if (!content.summands || search.isNothing(content))
      return 0;
    size_t number =
        rowNumbers.try_emplace(content.rows, rowNumbers.size()).first->second;
    return uint64_t(content.summands) << (8 * number);
  }

  void addTarget(Target target) {
    target.bound =
        bounds[target.layout][model] - before[model] - (*target.after)[model];
    if (isChain)
      target.bound -= toLeast(launch);
    if (toLeast(2 * (launch + leastMove)) > target.bound)
      return;
    for (int device = 0; device < search.devices; ++device)
      if (!search.isNothing(target.wanted[device]) &&
          llvm::none_of(ArrayRef(from.devices).take_front(search.devices),
                        [&](const Content &content) {
                          return fits(content, target, device);
                        }))
        return;
    for (int device = 0; device < search.devices; ++device)
      if (!search.isNothing(target.wanted[device]))
        target.needed |=
            getBits({target.wanted[device].rows, from.allSummands});
    addGroups(target);
    target.least = getLeast(target);
    if (isShared(target) && target.least <= target.bound)
      targets.push_back(std::move(target));
  }

  bool fits(const Content &content, const Target &target, int device) const {
    return content.rows == target.wanted[device].rows && content.summands &&
           (target.sum || content.summands == from.allSummands);
  }

  bool isLatencyAll() const {
    const Cluster &cluster = topology.getCluster();
    double longest = 2 * bytes / cluster.device.memoryBandwidth;
    for (const ClusterLevel &level : cluster.levels)
      longest =
          std::max(longest, search.devices * bytes / level.getUnitBandwidth());
    return longest < launch &&
           llvm::is_sorted(
               cluster.levels,
               [](const ClusterLevel &a, const ClusterLevel &b) {
                 return a.latency < b.latency;
               });
  }

  void addGroups(Target &target) const {
    for (int device = 0; device < search.devices; ++device) {
      const Content &want = target.wanted[device];
      if (search.isNothing(want))
        continue;
      int first = int(topology.getFirstOfGroup(device, target.sum));
      auto group = llvm::find_if(target.groups, [&](const Group &other) {
        return other.first == first;
      });
      if (group == target.groups.end()) {
        target.groups.push_back({want.rows, 0, {}, first});
        group = std::prev(target.groups.end());
      }
      group->units |= uint8_t(1 << device / unitSize);
      ++group->membersOfUnit[device / unitSize];
    }
  }

  bool isShared(const Target &target) const {
    bool isOrdered =
        llvm::is_sorted(topology.getCluster().levels,
                        [](const ClusterLevel &a, const ClusterLevel &b) {
                          return a.latency < b.latency ||
                                 a.getUnitBandwidth() > b.getUnitBandwidth();
                        });
    if (search.isMax || !isOrdered)
      return true;
    for (const Group &group : target.groups) {
      auto isOpen = [&](const Group &other) {
        return other.rows == group.rows &&
               (target.sum ||
                !fits(from.devices[other.first], target, other.first));
      };
      if (llvm::count_if(target.groups, isOpen) > 1)
        return true;
    }
    return false;
  }

  /// Messages into the units of a group, at least.
  int countMissing(const Group &group, const HeldState &state) const {
    uint8_t all = 0;
    int taken = 0;
    for (int unit = 0; group.units >> unit; ++unit) {
      uint8_t there = 0;
      int end = std::min(search.devices, (unit + 1) * unitSize);
      for (int device = unit * unitSize; device < end; ++device)
        if (state.devices[device].rows == group.rows)
          there |= state.devices[device].summands & from.allSummands;
      if (!(group.units >> unit & 1))
        continue;
      all |= there;
      taken += std::min(group.membersOfUnit[unit] * mostSummands,
                        llvm::popcount(there));
    }
    taken = std::min(taken, llvm::popcount(all));
    return (numSummands - taken + mostSummands - 1) / mostSummands;
  }

  double getOuter(int messages) const {
    if (messages == 0)
      return leastMove;
    return std::max(leastMove,
                    top->latency + messages * bytes / top->getUnitBandwidth());
  }

  static int64_t toLeast(double seconds) {
    return int64_t(seconds * 1e12 * (1 - 1e-9));
  }

  /// Picoseconds of both permutes.
  int64_t getLeast(const Target &target) const {
    int most = 0;
    for (const Group &group : target.groups) {
      // Messages into the units of this group, for each of the different rows.
      int sum = 0;
      for (auto [i, other] : llvm::enumerate(target.groups)) {
        if (other.units != group.units)
          continue;
        bool isFirst = true;
        int missing = 0;
        for (auto [j, same] : llvm::enumerate(target.groups))
          if (same.units == other.units && same.rows == other.rows) {
            isFirst &= j >= i;
            missing = std::max(missing, countMissing(same, from));
          }
        sum += isFirst ? missing : 0;
      }
      int units = llvm::popcount(group.units);
      most = std::max(most, (sum + units - 1) / units);
    }
    double one = getOuter(most) + leastMove;
    double both =
        2 * top->latency + std::max(2, most) * bytes / top->getUnitBandwidth();
    return toLeast(2 * launch + std::min(one, std::max(both, 2 * leastMove)));
  }

  /// Picoseconds of the second permute, if some devices have been chosen.
  int64_t getLeastSecond(const Target &target, int chosen) const {
    int most = 0;
    for (const Group &group : target.groups) {
      int sum = 0;
      for (const Group &other : target.groups)
        if (other.units == group.units &&
            (group.units >> chosen / unitSize) == 0)
          sum += countMissing(other, held);
      int units = llvm::popcount(group.units);
      most = std::max(most, (sum + units - 1) / units);
    }
    return toLeast(launch + getOuter(most));
  }

  /// `longest`: seconds of the first permute at least, without the launch.
  /// `there`: the bits of what has been given.
  void choose(int device, const std::vector<unsigned> &open, double longest,
              uint64_t there) {
    int64_t first = toLeast(launch + std::max(leastMove, longest));
    bool isUnitDone = device % unitSize == 0 || device == search.devices;
    int done = device == search.devices ? 8 * unitSize : device;
    std::vector<unsigned> rest;
    for (unsigned number : open) {
      const Target &target = targets[number];
      int64_t second = isUnitDone && !isChain ? getLeastSecond(target, done)
                                              : toLeast(launch + leastMove);
      if (std::max(target.least, first + second) <= target.bound &&
          llvm::popcount(target.needed & ~there) <=
              (search.devices - device) * mostSummands)
        rest.push_back(number);
    }
    if (rest.empty())
      return;
    if (device == search.devices) {
      finish(rest);
      return;
    }
    const Content own = from.devices[device];
    held.devices[device] = own;
    choose(device + 1, rest, longest, there | getBits(own));
    int unit = device / unitSize;
    for (auto [number, content] : llvm::enumerate(contents)) {
      if (content == own || content.summands == 0 || search.isNothing(content))
        continue;
      held.devices[device] = content;
      uint8_t holders = 0; // units
      double nearest = std::numeric_limits<double>::infinity();
      for (int source = 0; source < search.devices; ++source)
        if (from.devices[source] == content) {
          holders |= uint8_t(1 << source / unitSize);
          const ClusterLevel &link =
              topology.getCluster()
                  .levels[topology.getMeetingLevel(source, device)];
          nearest =
              std::min(nearest, link.latency + bytes / link.getUnitBandwidth());
        }
      double seconds = std::max(longest, nearest);
      int crosses = !(holders >> unit & 1);
      incoming[unit] += crosses;
      crossed[number] += crosses;
      if (crosses) {
        int units = llvm::popcount(holders);
        int most =
            std::max(incoming[unit], (crossed[number] + units - 1) / units);
        seconds = std::max(seconds, getOuter(most));
      }
      choose(device + 1, rest, seconds, there | getBits(content));
      incoming[unit] -= crosses;
      crossed[number] -= crosses;
    }
    held.devices[device] = own;
  }

  void finish(const std::vector<unsigned> &open) {
    if (held == from)
      return;
    std::optional<Costs> first = search.permute(from, &held, 0);
    if (!first)
      return;
    if (isChain) {
      Costs spent = *first;
      for (size_t i = 0; i < spent.size(); ++i)
        spent[i] += before[i];
      RelaySearch(search, search.intern(held), model, spent, bounds, visit)
          .run(Rest::None);
      return;
    }
    for (unsigned number : open) {
      const Target &target = targets[number];
      if ((*first)[model] + getLeastSecond(target, 8 * unitSize) > target.bound)
        continue;
      Costs most(first->size(), 0);
      most[model] = target.bound - (*first)[model];
      std::optional<Costs> costs =
          target.backward ? search.permuteTo(held, *target.backward, most)
                          : search.permute(held, nullptr, target.layout, &most);
      if (!costs)
        continue;
      for (size_t i = 0; i < costs->size(); ++i)
        (*costs)[i] += before[i] + (*first)[i] + (*target.after)[i];
      visit(target.layout, *costs);
    }
  }

  ReshardingSearch &search;
  HeldState from, held;
  size_t model;
  const Costs &before;
  const std::vector<Costs> &bounds;
  const MeshTopology &topology;
  llvm::function_ref<void(unsigned, const Costs &)> visit;
  const ClusterLevel *top = nullptr; ///< the outermost level of the mesh
  int unitSize = 1, numSummands = 1, mostSummands = 1;
  double bytes = 0, launch = 0, leastMove = 0;
  std::vector<Target> targets;
  std::vector<Content> contents;
  std::map<std::array<uint16_t, 3>, size_t> rowNumbers;
  bool isChain = false;                           ///< of three permutes
  std::array<int, 8> incoming = {}, crossed = {}; ///< by unit, by content
};

void ReshardingSearch::forEachRelay(
    unsigned state, const Costs &before, Rest rest,
    const std::vector<Costs> &bounds,
    llvm::function_ref<void(unsigned, const Costs &)> visit) {
  for (size_t model = 0; model < models.size(); ++model)
    RelaySearch(*this, state, model, before, bounds, visit).run(rest);
}
