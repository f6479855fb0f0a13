//===- Cluster.h - Clusters by name and as text -----------------*- C++ -*-===//
//
// Finds, reads and writes clusters. Their JSON form is documented in
// docs/cluster.md.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_CLUSTER_H
#define HEDDLE_COST_CLUSTER_H

#include "heddle/Support/Cluster.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

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
