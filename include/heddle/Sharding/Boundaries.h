//===- Boundaries.h - Shardings of arguments and results --------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_BOUNDARIES_H
#define HEDDLE_SHARDING_BOUNDARIES_H

#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// The mesh of a global program, which every pass on shardings begins with;
/// empty if the module has none. Errors, on the mesh, variable or function:
/// - several meshes in the module;
/// - a `heddle.sharding` of an argument or result, or a storage of a variable,
///   that is not over the mesh;
/// - such a sharding in a function within another module, which belongs to no
///   mesh: it would be passed over in silence;
/// - a function that is one device's already, or, where there is a mesh, has
///   several blocks.
mlir::FailureOr<MeshRef> getMeshOfGlobalProgram(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_SHARDING_BOUNDARIES_H
