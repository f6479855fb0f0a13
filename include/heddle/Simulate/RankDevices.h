//===- RankDevices.h - The kinds of device that ranks have ------*- C++ -*-===//

#ifndef HEDDLE_SIMULATE_RANKDEVICES_H
#define HEDDLE_SIMULATE_RANKDEVICES_H

#include "dialects/Heddle/Heddle.h"
#include "dialects/Heddle/Ranks.h"
#include "heddle/Cost/Cluster.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle {

/// The devices of a module's rank sets on a cluster. If the ranks of a set have
/// several kinds of device, each figure of the set's device is that of the
/// weakest kind: the ranks run the same program, so the slowest decides.
class RankDevices {
public:
  RankDevices(mlir::ModuleOp module, const Cluster &cluster);

  /// Returns the device of a rank set. Null: of all ranks.
  const ClusterDevice &get(RanksAttr ranks) const;
  /// Returns the device of the ranks whose program has the op.
  const ClusterDevice &getOf(mlir::Operation *op) const;
  /// Returns whether the ranks of a set have several kinds of device.
  bool isMixed(RanksAttr ranks) const;

private:
  MeshAttr mesh; ///< null: the module has none
  const Cluster &cluster;
  mutable llvm::DenseMap<mlir::Attribute, ClusterDevice> known;
};

} // namespace heddle

#endif // HEDDLE_SIMULATE_RANKDEVICES_H
