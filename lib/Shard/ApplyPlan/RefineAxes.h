//===- RefineAxes.h - Splits mesh axes for groups of heads ------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H
#define HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// An op with named factors, and the axes that the plan assigns to them.
struct PlannedOp {
  mlir::Operation *op;
  ShardingRule rule;
  FactorAxes axes;
  llvm::SmallVector<bool> pinned; ///< whether the plan names the factor
};

/// Refines mesh axes for groups (key/value heads) that are fewer than the
/// devices over which they are split. If an op with groups and members splits
/// its groups over an axis whose size does not divide them, the axis is refined
/// into sub-axes "tp.0", "tp.1", … (major to minor), and `mesh` is changed. The
/// groups take the first sub-axes, whose sizes divide their number, and the
/// members take the others. Ops with equally many groups but without members
/// take the same first sub-axes. All other uses of the axis, in `ops` and in
/// `storage`, become all of its sub-axes. An axis that cannot be refined stays,
/// and the groups are padded.
///
/// Example: 2 key/value heads with 4 queries each, over "tp" of 4 devices:
/// tp.0 = 2 splits the heads, tp.1 = 2 the queries.
void refineAxes(mlir::MLIRContext *context, MeshAttr &mesh,
                llvm::MutableArrayRef<PlannedOp> ops,
                llvm::MutableArrayRef<DimensionAxes> storage);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_APPLYPLAN_REFINEAXES_H
