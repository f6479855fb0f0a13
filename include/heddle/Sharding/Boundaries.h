//===- Boundaries.h - What functions say of their shardings -----*- C++ -*-===//

#ifndef HEDDLE_SHARDING_BOUNDARIES_H
#define HEDDLE_SHARDING_BOUNDARIES_H

#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// An error, on the mesh or function, unless the module has one mesh at most
/// and each `heddle.sharding` of an argument or result is a sharding over it,
/// as is the storage of each variable; nor may a function be one device's
/// already, or, where there is a mesh, have several blocks. A function within
/// another module belongs to no mesh: what it says would be passed over in
/// silence.
mlir::LogicalResult verifyBoundaries(mlir::ModuleOp module, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_SHARDING_BOUNDARIES_H
