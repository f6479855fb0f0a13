//===- RefineAxes.h - Splits mesh axes for groups of heads ------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H
#define HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// An op that a plan has entries for, and the plan's assignment of it.
struct PlannedOp {
  mlir::Operation *op;
  ShardingRule rule;
  FactorAxes axes;
  llvm::SmallVector<bool> pinned; ///< the plan names the factor
};

/// Refines mesh axes so that devices share groups (key/value heads) of which
/// there are fewer than devices. If an op with members of groups splits its
/// groups over an axis whose size does not divide them, the axis is refined
/// into sub-axes "tp.0", "tp.1", … (major to minor; `mesh` is changed). The
/// groups take the first sub-axes, as many as divide them, and the members the
/// rest. Ops with as many groups but without members take the same first
/// sub-axes. All other uses of the axis, here and in `storage`, become all of
/// its sub-axes. An axis that cannot be refined stays, and the groups are
/// padded.
///
/// Example: 2 key/value heads with 4 queries each, over "tp" of 4 devices:
/// tp.0 = 2 splits the heads, tp.1 = 2 the queries.
void refineAxes(mlir::MLIRContext *context, MeshAttr &mesh,
                llvm::MutableArrayRef<PlannedOp> ops,
                llvm::MutableArrayRef<DimensionAxes> storage);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H
