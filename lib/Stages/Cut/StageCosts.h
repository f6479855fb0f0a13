//===- StageCosts.h - Times of a sharded program's ops ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_STAGES_CUT_STAGECOSTS_H
#define HEDDLE_LIB_STAGES_CUT_STAGECOSTS_H

#include "heddle/Sharding/ReshardSequence.h"

namespace heddle {

/// The times of a sharded program's ops on one device of a cluster, before they
/// are fused.
class StageCosts {
public:
  StageCosts(MeshRef mesh, mlir::StringAttr axis, ReshardSequences sequences);

  /// Returns the seconds of an op: of a reshard by its collectives, of any
  /// other op by a roofline of the part that one device computes.
  double getSeconds(mlir::Operation *op);
  /// Returns the seconds in which a device sends `bytes` to the next one along
  /// the pipeline's axis.
  double getTransferSeconds(int64_t bytes) const;

  /// Returns, by place along the pipeline's axis, the time of products of this
  /// element type on the devices of the place, divided by the time on the
  /// cluster's weakest device. All are 1 if the devices are equal.
  std::vector<double> getFactors(mlir::Type elementType) const;

  /// Returns the seconds of a reshard.
  double getReshardSeconds(mlir::RankedTensorType type, ShardingAttr from,
                           ShardingAttr to) {
    return from == to ? 0 : sequences.getCost(type, from, to).seconds;
  }

private:
  MeshRef mesh;
  unsigned axis = 0; ///< of the pipeline, by index
  ReshardSequences sequences;
  std::vector<int64_t> sources; ///< of a transfer, by device
};

} // namespace heddle

#endif // HEDDLE_LIB_STAGES_CUT_STAGECOSTS_H
