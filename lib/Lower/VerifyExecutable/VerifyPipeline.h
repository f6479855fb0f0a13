//===- VerifyPipeline.h - Checks the programs of a pipeline -----*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_VERIFYPIPELINE_H
#define HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_VERIFYPIPELINE_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Checks that tables can be made of the module's pipeline, if it has one: its
/// schedule fits the mesh and the micro-batches; each stage of the schedule has
/// one program of a kind, on the ranks of its device; a program reads only
/// values that every schedule makes before.
mlir::LogicalResult verifyPipeline(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_VERIFYPIPELINE_H
