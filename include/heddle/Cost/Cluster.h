//===- Cluster.h - Devices and the links between them -----------*- C++ -*-===//
//
// A cluster as data: equal devices at the leaves of a tree of links. Its JSON
// form is documented in docs/cluster.md. Nothing here knows of programs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_CLUSTER_H
#define HEDDLE_COST_CLUSTER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle {

struct ClusterDevice {
  std::string kind;
  int64_t memory = 0;         ///< bytes
  double memoryBandwidth = 0; ///< bytes a second
  /// Seconds that every op takes at least: the launch of a kernel or
  /// collective.
  double launch = 0;
  /// Operations a second of dense products, by element type ("f32", "bf16"). A
  /// multiplication and an addition count as two.
  std::map<std::string, double> peak;
};

/// One level of the topology: joins `count` units of the level below (devices,
/// at the innermost) so that all can send to all at once. Each unit has `links`
/// links of `bandwidth` into this level, which all devices of the unit share.
struct ClusterLevel {
  std::string name;
  int64_t count = 1;
  double latency = 0;   ///< seconds from one unit to another
  double bandwidth = 0; ///< bytes a second, of one link in one direction
  int64_t links = 1;

  double getUnitBandwidth() const { return bandwidth * double(links); }
};

struct Cluster {
  std::string name;
  ClusterDevice device;
  std::vector<ClusterLevel> levels; ///< innermost first

  /// The product of the levels' counts. Devices are numbered so that those of
  /// one unit follow each other.
  int64_t getNumDevices() const;
};

/// Reads a cluster from JSON text. `source` names the text in errors, which
/// read "c.json: $.levels[1].latency: expected …".
llvm::Expected<Cluster> parseCluster(llvm::StringRef text,
                                     llvm::StringRef source);

/// The canonical text. Parsing it and writing the result gives the same bytes.
std::string writeCluster(const Cluster &cluster);

/// Names of the clusters that are known without a file.
std::vector<std::string> getClusterPresets();

/// A preset "dgx-a100", a preset with another number of units at its outermost
/// level "dgx-a100:16", or the path of a file, in this order. The error of an
/// unknown name lists the presets.
llvm::Expected<Cluster> loadCluster(llvm::StringRef presetOrPath);

/// The cluster to assume if none is given: all devices are equally near.
Cluster makeUniformCluster(int64_t devices);

} // namespace heddle

#endif // HEDDLE_COST_CLUSTER_H
