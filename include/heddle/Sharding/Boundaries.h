//===- Boundaries.h - Shardings of arguments and results --------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_BOUNDARIES_H
#define HEDDLE_SHARDING_BOUNDARIES_H

#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// Checks the shardings of a global program's boundaries and returns its mesh;
/// empty if the module has none. Every pass on shardings calls it first.
/// Errors, on the mesh, variable or function:
/// - the module has several meshes;
/// - a `heddle.sharding` of an argument or result, or a storage of a variable,
///   is not over the mesh;
/// - a function within another module, to which the mesh does not apply, has
///   such a sharding;
/// - a function is one device's already;
/// - the module has a mesh, and a function has several blocks.
mlir::FailureOr<MeshRef> getMeshOfGlobalProgram(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_SHARDING_BOUNDARIES_H
