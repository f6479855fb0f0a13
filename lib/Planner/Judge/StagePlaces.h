//===- StagePlaces.h - The devices of a pipeline's places -------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_STAGEPLACES_H
#define HEDDLE_LIB_PLANNER_JUDGE_STAGEPLACES_H

#include "heddle/Cost/CollectiveCost.h"
#include <string>
#include <vector>

namespace heddle {

/// The properties that all devices of one place in a pipeline share.
struct PlaceDevice {
  int64_t group = -1; ///< of the cluster; -1: all are equal, or several
  int64_t extraMemory = 0;
  std::string mixed; ///< the kinds, if there are several
};

/// Returns the devices of a pipeline by place. The first axis of the mesh has
/// the places.
std::vector<PlaceDevice> getPlaces(const MeshTopology &topology);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_STAGEPLACES_H
