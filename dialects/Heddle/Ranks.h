//===- Ranks.h - The devices of a set of ranks ------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_RANKS_H
#define HEDDLE_DIALECTS_HEDDLE_RANKS_H

#include "dialects/Heddle/HeddleDialect.h"
#include "llvm/ADT/STLExtras.h"
#include <vector>

namespace heddle {

/// Returns the numbers of the devices whose mesh coordinates `ranks` allows.
/// Null: all of the mesh. Rank k of a mesh is device k.
inline std::vector<int64_t> getDevicesOfRanks(MeshAttr mesh, RanksAttr ranks) {
  int64_t count = 1;
  for (MeshAxisAttr axis : mesh.getAxes())
    count *= axis.getSize();
  std::vector<int64_t> devices;
  for (int64_t device = 0; device < count; ++device) {
    bool contains = true;
    int64_t rest = device;
    for (MeshAxisAttr axis : llvm::reverse(mesh.getAxes())) {
      int64_t coordinate = rest % axis.getSize();
      rest /= axis.getSize();
      if (ranks)
        for (CoordinatesAttr where : ranks.getWhere())
          if (where.getAxis() == axis.getName())
            contains &= llvm::is_contained(where.getValues(), coordinate);
    }
    if (contains)
      devices.push_back(device);
  }
  return devices;
}

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_RANKS_H
