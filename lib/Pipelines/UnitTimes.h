//===- UnitTimes.h - Times of computations before their order ---*- C++ -*-===//

#ifndef HEDDLE_LIB_PIPELINES_UNITTIMES_H
#define HEDDLE_LIB_PIPELINES_UNITTIMES_H

#include "heddle/Pipelines/Pipelines.h"

namespace heddle {

/// Gives the computations and collectives of a module of phase `kernels` the
/// attributes of heddle/Schedule/Passes.h, by which the scheduler orders them.
/// Their values are what `options.makeCostModel` predicts for the call that the
/// op becomes. Does nothing without such a model. Fails, with the errors of the
/// passes, if the module cannot be lowered to calls.
mlir::LogicalResult attachUnitTimes(mlir::ModuleOp module,
                                    const CompileOptions &options);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_UNITTIMES_H
