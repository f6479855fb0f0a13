//===- RepeatConstants.h - A constant for each use --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_PROPAGATE_REPEATCONSTANTS_H
#define HEDDLE_LIB_SHARD_PROPAGATE_REPEATCONSTANTS_H

#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Gives each use of a tensor that is made of scalars (isFreeTensor) a copy of
/// its own.
void repeatConstants(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_PROPAGATE_REPEATCONSTANTS_H
