//===- LayoutPermute.h - A permute between two layouts ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDING_LAYOUTPERMUTE_H
#define HEDDLE_LIB_COST_RESHARDING_LAYOUTPERMUTE_H

#include "LayoutGeometry.h"

namespace heddle {

/// A permute of whole parts over all devices of a mesh.
struct LayoutPermute {
  /// Device i receives what device sources[i] has; -1: zeros.
  std::vector<int64_t> sources;
  CollectiveCost cost;
};

/// The permute between two layouts whose parts are equally large. Nothing, if
/// there is none, since `to` has fewer partial sums than `from`. Where several
/// devices hold a part, a device receives it from the one that shares its other
/// coordinates, or each holder gives to equally many, whichever takes less.
std::optional<LayoutPermute> findPermute(const MeshTopology &topology,
                                         const LayoutGeometry &geometry,
                                         const TensorLayout &from,
                                         const TensorLayout &to);

/// The fewest axes such that the permute is the same one in each group over
/// them, and the sources in such a group.
struct GroupPermute {
  std::vector<unsigned> axes;
  std::vector<int64_t> sources;
};
GroupPermute getGroupPermute(const MeshTopology &topology,
                             llvm::ArrayRef<int64_t> sources);

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDING_LAYOUTPERMUTE_H
