//===- MeshAxes.h - Meshes of modules for cost models -----------*- C++ -*-===//

#ifndef HEDDLE_SIMULATE_MESHAXES_H
#define HEDDLE_SIMULATE_MESHAXES_H

#include "dialects/Heddle/Heddle.h"
#include "heddle/Cost/CollectiveCost.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Returns the set of the axes of these indices.
inline AxisMask getAxisMask(llvm::ArrayRef<unsigned> axes) {
  AxisMask mask = 0;
  for (unsigned axis : axes)
    mask |= AxisMask(1) << axis;
  return mask;
}

/// Places the mesh of a module on a cluster. A module without a mesh has one
/// device.
inline llvm::Expected<MeshTopology> makeTopology(mlir::ModuleOp module,
                                                 const Cluster &cluster) {
  llvm::SmallVector<int64_t> sizes;
  for (auto op : module.getOps<MeshOp>())
    for (MeshAxisAttr axis : op.getMesh().getAxes())
      sizes.push_back(axis.getSize());
  return MeshTopology::create(cluster, sizes);
}

} // namespace heddle

#endif // HEDDLE_SIMULATE_MESHAXES_H
