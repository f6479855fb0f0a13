//===- Cluster.h - Devices and the links between them -----------*- C++ -*-===//
//
// A cluster as data: devices at the leaves of a tree of links. Nothing here
// knows of programs, or of LLVM: the runtime emulates a cluster's links.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_CLUSTER_H
#define HEDDLE_SUPPORT_CLUSTER_H

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle {

/// The shares of a device's rates that programs reach, above 0 and at most 1.
struct DeviceEfficiency {
  double peak = 1;            ///< of `peak`, by large products
  double memoryBandwidth = 1; ///< of `memoryBandwidth`, by copies and kernels

  bool operator==(const DeviceEfficiency &) const = default;
};

struct ClusterDevice {
  std::string kind;
  int64_t memory = 0;         ///< bytes
  double memoryBandwidth = 0; ///< bytes a second, by the data sheet
  /// The least time of an op in seconds: the launch of a kernel or collective.
  double launch = 0;
  /// Operations a second in dense products, by element type ("f32", "bf16"), by
  /// the data sheet. A multiplication and an addition count as two operations.
  std::map<std::string, double> peak;
  DeviceEfficiency efficiency = {};

  /// Returns the bytes a second that programs reach.
  double getMemoryRate() const {
    return memoryBandwidth * efficiency.memoryBandwidth;
  }
};

/// Returns a device that is no better than either of two in any figure. Its
/// rates are those that programs reach, for the element types that both have.
inline ClusterDevice getWeaker(const ClusterDevice &a, const ClusterDevice &b) {
  ClusterDevice weaker;
  weaker.kind = a.kind == b.kind ? a.kind : a.kind + " or " + b.kind;
  weaker.memory = std::min(a.memory, b.memory);
  weaker.memoryBandwidth = std::min(a.getMemoryRate(), b.getMemoryRate());
  weaker.launch = std::max(a.launch, b.launch);
  for (const auto &[type, rate] : a.peak)
    if (auto other = b.peak.find(type); other != b.peak.end())
      weaker.peak[type] =
          std::min(rate * a.efficiency.peak, other->second * b.efficiency.peak);
  return weaker;
}

/// Returns a device that is no worse than either of two in any figure, with
/// rates as getWeaker() has them.
inline ClusterDevice getStronger(const ClusterDevice &a,
                                 const ClusterDevice &b) {
  ClusterDevice stronger = getWeaker(a, b);
  stronger.memory = std::max(a.memory, b.memory);
  stronger.memoryBandwidth = std::max(a.getMemoryRate(), b.getMemoryRate());
  stronger.launch = std::min(a.launch, b.launch);
  for (auto &[type, rate] : stronger.peak)
    rate = std::max(a.peak.at(type) * a.efficiency.peak,
                    b.peak.at(type) * b.efficiency.peak);
  return stronger;
}

/// Consecutive devices of one kind.
struct ClusterGroup {
  ClusterDevice device;
  int64_t count = 1;
};

/// One level of the topology. It joins `count` units of the level below (at the
/// innermost level: devices), all of which can send to each other at once. Each
/// unit has `links` links of `bandwidth` into this level, which all devices of
/// the unit share.
struct ClusterLevel {
  std::string name;
  int64_t count = 1;
  double latency = 0;   ///< seconds of a message between two units
  double bandwidth = 0; ///< bytes a second of one link in one direction
  int64_t links = 1;
  double efficiency = 1; ///< the share of `bandwidth` that collectives reach

  /// Returns the bytes a second that collectives reach over all links of a unit
  /// in one direction.
  double getUnitRate() const { return bandwidth * efficiency * double(links); }
};

struct Cluster {
  std::string name;
  /// The figures that every device reaches: with several kinds, each figure is
  /// that of the weakest kind.
  ClusterDevice device;
  std::vector<ClusterLevel> levels; ///< innermost first
  /// The devices by kind, in the order of their numbers. Empty: all are equal.
  std::vector<ClusterGroup> groups = {};

  /// Returns the product of the levels' counts. Devices of one unit have
  /// consecutive numbers.
  int64_t getNumDevices() const {
    int64_t devices = 1;
    for (const ClusterLevel &level : levels)
      devices *= level.count;
    return devices;
  }

  /// Returns the group of a device, whose number is below getNumDevices().
  /// Invalid if all devices are equal.
  const ClusterGroup &getGroup(int64_t number) const {
    size_t i = 0;
    for (; i + 1 < groups.size() && number >= groups[i].count; ++i)
      number -= groups[i].count;
    return groups[i];
  }

  /// Returns a device that no device of the cluster exceeds in any figure.
  ClusterDevice getStrongest() const {
    ClusterDevice strongest = groups.empty() ? device : groups.front().device;
    for (const ClusterGroup &group : groups)
      strongest = getStronger(strongest, group.device);
    return strongest;
  }

  /// Returns a device that does not exceed any device of the cluster in any
  /// figure. `groups` is not empty.
  ClusterDevice getWeakest() const {
    ClusterDevice weakest = groups.front().device;
    for (const ClusterGroup &group : groups)
      weakest = getWeaker(weakest, group.device);
    return weakest;
  }

  /// Returns the cluster for programs of its first `used` devices: `device` and
  /// `groups` are those of these devices. The levels, which say how far devices
  /// are apart, stay.
  Cluster getFirst(int64_t used) const {
    if (groups.empty() || used < 1)
      return *this;
    Cluster first = *this;
    first.groups.clear();
    for (const ClusterGroup &group : groups) {
      if (used <= 0)
        break;
      first.groups.push_back({group.device, std::min(group.count, used)});
      used -= group.count;
    }
    first.device =
        first.groups.size() == groups.size() ? device : first.getWeakest();
    return first;
  }

  /// Returns the figures that all of these devices reach: those of their kind,
  /// or with several kinds the weakest in each figure.
  ClusterDevice getDeviceOf(const std::vector<int64_t> &numbers) const {
    if (groups.empty() || numbers.empty())
      return device;
    const ClusterGroup *last = &getGroup(numbers.front());
    ClusterDevice weakest = last->device;
    for (int64_t number : numbers)
      if (const ClusterGroup *group = &getGroup(number); group != last) {
        weakest = getWeaker(weakest, group->device);
        last = group;
      }
    return weakest;
  }
};

} // namespace heddle

#endif // HEDDLE_SUPPORT_CLUSTER_H
