//===- Cluster.h - Devices and the links between them -----------*- C++ -*-===//
//
// A cluster as data: equal devices at the leaves of a tree of links. Nothing
// here knows of programs, or of LLVM: the runtime emulates a cluster's links.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_CLUSTER_H
#define HEDDLE_SUPPORT_CLUSTER_H

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
  ClusterDevice device;
  std::vector<ClusterLevel> levels; ///< innermost first

  /// Returns the product of the levels' counts. Devices of one unit have
  /// consecutive numbers.
  int64_t getNumDevices() const {
    int64_t devices = 1;
    for (const ClusterLevel &level : levels)
      devices *= level.count;
    return devices;
  }
};

} // namespace heddle

#endif // HEDDLE_SUPPORT_CLUSTER_H
