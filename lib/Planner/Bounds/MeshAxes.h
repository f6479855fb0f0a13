//===- MeshAxes.h - The axes of a candidate's mesh --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BOUNDS_MESHAXES_H
#define HEDDLE_LIB_PLANNER_BOUNDS_MESHAXES_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Plan/DefaultPlan.h"

namespace heddle {

/// The axes of a candidate's mesh: pp, those of dp, cp, and those of tp.
struct MeshAxes {
  std::vector<int64_t> sizes;
  AxisMask data = 0, storage = 0, context = 0, tensor = 0;

  explicit MeshAxes(const DefaultMesh &mesh) {
    add(mesh.pipeline);
    for (int64_t size : mesh.data)
      data |= storage = add(size);
    context = add(mesh.context);
    for (int64_t size : mesh.tensor)
      tensor |= add(size);
  }

private:
  AxisMask add(int64_t size) {
    sizes.push_back(size);
    return AxisMask(1) << (sizes.size() - 1);
  }
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_MESHAXES_H
