//===- CollectiveCosts.h - Costs of collective ops --------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_COLLECTIVECOSTS_H
#define HEDDLE_SHARDING_COLLECTIVECOSTS_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// Returns the mask of the named axes. Bit i is axis i of the mesh.
AxisMask getAxisMask(MeshAttr mesh, llvm::ArrayRef<mlir::StringAttr> axes);

/// Returns the axes over which the op communicates; null if it is no collective
/// of the comm dialect. A comm.slice sends nothing, so it has none.
AxisListAttr getCollectiveAxes(mlir::Operation *op);

/// Returns the bytes sent in a collective op by the device that sends most, and
/// the op's time.
CollectiveCost getCollectiveCost(mlir::Operation *op, MeshAttr mesh,
                                 const MeshTopology &topology);

} // namespace heddle

#endif // HEDDLE_SHARDING_COLLECTIVECOSTS_H
