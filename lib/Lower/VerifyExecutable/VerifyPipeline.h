//===- VerifyPipeline.h - Checks the programs of a pipeline -----*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_VERIFYPIPELINE_H
#define HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_VERIFYPIPELINE_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Checks that tables can be built for the module's pipeline, if it has one.
/// The schedule must fit the mesh and the micro-batches. Each stage must have
/// one program of each kind, on the ranks of the stage's device. A program may
/// read only values that every schedule makes earlier.
mlir::LogicalResult verifyPipeline(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_VERIFYPIPELINE_H
