//===- CollectiveCosts.h - Costs of collective ops --------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_COLLECTIVECOSTS_H
#define HEDDLE_SHARDING_COLLECTIVECOSTS_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// The mesh's axes of these names, as a topology of the mesh numbers them.
AxisMask getAxisMask(MeshAttr mesh, llvm::ArrayRef<mlir::StringAttr> axes);

/// The axes over which the op communicates; null if it is no collective of the
/// comm dialect. A comm.slice sends nothing.
AxisListAttr getCollectiveAxes(mlir::Operation *op);

/// The bytes that a collective of one device's program sends, and its time.
CollectiveCost getCollectiveCost(mlir::Operation *op, MeshAttr mesh,
                                 const MeshTopology &topology);

} // namespace heddle

#endif // HEDDLE_SHARDING_COLLECTIVECOSTS_H
