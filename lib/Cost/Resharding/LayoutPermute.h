//===- LayoutPermute.h - A permute between two layouts ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDING_LAYOUTPERMUTE_H
#define HEDDLE_LIB_COST_RESHARDING_LAYOUTPERMUTE_H

#include "LayoutGeometry.h"

namespace heddle {

/// A permute of whole parts among all devices of a mesh.
struct LayoutPermute {
  /// Device i receives the part of device sources[i]; -1: zeros.
  std::vector<int64_t> sources;
  CollectiveCost cost;
};

/// Returns the permute between two layouts whose parts are equally large.
/// Returns nothing if `to` has places for fewer summands than `from` has. If
/// several devices hold a part, either each device receives it from the holder
/// that shares its other coordinates, or each holder gives it to equally many
/// devices, whichever takes less time.
std::optional<LayoutPermute> findPermute(const MeshTopology &topology,
                                         const LayoutGeometry &geometry,
                                         const TensorLayout &from,
                                         const TensorLayout &to);

/// A permute that is the same in each group over `axes`; `sources` are members
/// of a group. The axes are those that messages cross, and others only if the
/// permute differs along them.
struct GroupPermute {
  std::vector<unsigned> axes;
  std::vector<int64_t> sources;
};
GroupPermute getGroupPermute(const MeshTopology &topology,
                             llvm::ArrayRef<int64_t> sources);

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDING_LAYOUTPERMUTE_H
