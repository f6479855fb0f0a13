//===- RefineAxes.h - Splits mesh axes for key/value heads ------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H
#define HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// An op that a plan speaks of, with what it says.
struct PlannedOp {
  mlir::Operation *op;
  ShardingRule rule;
  FactorAxes axes;
  llvm::SmallVector<bool> pinned; ///< the plan names the factor
};

/// Where a factor n of an op with a factor r stands over an axis whose size
/// does not divide n: refines the axis into sub-axes "tp.0", "tp.1", … (major
/// to minor; `mesh` is changed), of which n takes the first, as many as divide
/// it, and r the rest. Ops without r whose n has the same size take the same
/// first part. All other uses of the axis, here and in `storage`, become all of
/// its parts. What cannot be refined stays, and is padded.
void refineAxes(mlir::MLIRContext *context, MeshAttr &mesh,
                llvm::MutableArrayRef<PlannedOp> ops,
                llvm::MutableArrayRef<DimensionAxes> storage);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H
