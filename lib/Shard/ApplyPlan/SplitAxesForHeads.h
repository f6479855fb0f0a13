//===- SplitAxesForHeads.h - Mesh axes for groups of heads ------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_APPLYPLAN_SPLITAXESFORHEADS_H
#define HEDDLE_LIB_SHARD_APPLYPLAN_SPLITAXESFORHEADS_H

#include "heddle/PlanVerifier/PlanVerifier.h"

namespace heddle {

/// Refines mesh axes whose size does not divide the number of groups (key/value
/// heads) that are split over them. If an op has such groups, and members that
/// the plan does not name, the axis is refined into sub-axes "tp.0", "tp.1", …
/// (major to minor), and `mesh` is changed. The groups take the first sub-axes,
/// over as many devices as the greatest common divisor of the axis size and the
/// number of groups. The members take the other sub-axes. If the divisor is 1,
/// the axis is not refined, and the members take all of it. Ops with equally
/// many groups but without members take the same first sub-axes. All other uses
/// of the axis, in `ops` and in `storage`, become all of its sub-axes.
///
/// If the members cannot be split evenly in this way, or if these sub-axes do
/// not fit those that other ops need, the groups keep the axis and are padded.
///
/// Example: 2 key/value heads with 4 queries each, over "tp" of 4 devices:
/// tp.0 = 2 splits the heads, tp.1 = 2 the queries.
void splitAxesForHeads(mlir::MLIRContext *context, MeshAttr &mesh,
                       llvm::MutableArrayRef<PlannedOp> ops,
                       llvm::MutableArrayRef<DimensionAxes> storage);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_APPLYPLAN_SPLITAXESFORHEADS_H
