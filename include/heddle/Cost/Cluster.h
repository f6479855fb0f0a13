//===- Cluster.h - Devices and the links between them -----------*- C++ -*-===//
//
// A cluster as data: equal devices at the leaves of a tree of links. Its JSON
// form is documented in docs/cluster.md. This library knows nothing of
// programs.
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
  /// The least time of an op in seconds: the launch of a kernel or collective.
  double launch = 0;
  /// Operations a second in dense products, by element type ("f32", "bf16"). A
  /// multiplication and an addition count as two operations.
  std::map<std::string, double> peak;
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

  double getUnitBandwidth() const { return bandwidth * double(links); }
};

struct Cluster {
  std::string name;
  ClusterDevice device;
  std::vector<ClusterLevel> levels; ///< innermost first

  /// Returns the product of the levels' counts. Devices of one unit have
  /// consecutive numbers.
  int64_t getNumDevices() const;
};

/// Reads a cluster from JSON text. `source` names the text in errors, which
/// read "c.json: $.levels[1].latency: expected …".
llvm::Expected<Cluster> parseCluster(llvm::StringRef text,
                                     llvm::StringRef source);

/// Returns the canonical text. Parsing and writing it again gives the same
/// bytes.
std::string writeCluster(const Cluster &cluster);

/// Returns the names of the clusters that are known without a file.
std::vector<std::string> getClusterPresets();

/// Loads a cluster. The argument is a preset ("dgx-a100"), a preset with
/// another number of units at its outermost level ("dgx-a100:16"), or the path
/// of a file, tried in this order. The error of an unknown name lists the
/// presets.
llvm::Expected<Cluster> loadCluster(llvm::StringRef presetOrPath);

/// Returns the cluster to assume if none is given: all devices are equally
/// near.
Cluster makeUniformCluster(int64_t devices);

} // namespace heddle

#endif // HEDDLE_COST_CLUSTER_H
