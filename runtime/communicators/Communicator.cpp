//===- Communicator.cpp - Ranks and groups of a mesh ----------------------===//

#include "communicators/Communicator.h"

namespace heddle::runtime {

Communicator::~Communicator() = default;

std::vector<int64_t> coordinatesOf(const std::vector<MeshAxis> &mesh,
                                   int32_t rank) {
  std::vector<int64_t> coordinates(mesh.size());
  int64_t rest = rank;
  for (size_t axis = mesh.size(); axis-- > 0;) {
    coordinates[axis] = rest % mesh[axis].size;
    rest /= mesh[axis].size;
  }
  return coordinates;
}

GroupView groupOf(const std::vector<MeshAxis> &mesh,
                  const std::vector<int32_t> &axes, int32_t rank) {
  return groupOf(mesh, GroupInfo{axes, {}}, rank);
}

GroupView groupOf(const std::vector<MeshAxis> &mesh, const GroupInfo &group,
                  int32_t rank) {
  const std::vector<int32_t> &axes = group.axes;
  RankSet members{group.among};
  std::vector<int64_t> coordinates = coordinatesOf(mesh, rank);
  int64_t size = 1;
  for (int32_t axis : axes)
    size *= mesh[axis].size;
  GroupView view{{}, -1};
  for (int64_t member = 0; member < size; ++member) {
    std::vector<int64_t> of = coordinates;
    int64_t rest = member;
    for (size_t i = axes.size(); i-- > 0;) {
      of[axes[i]] = rest % mesh[axes[i]].size;
      rest /= mesh[axes[i]].size;
    }
    if (!members.contains(of))
      continue;
    int64_t linear = 0;
    for (size_t axis = 0; axis < mesh.size(); ++axis)
      linear = linear * mesh[axis].size + of[axis];
    if (linear == rank)
      view.member = int32_t(view.ranks.size());
    view.ranks.push_back(int32_t(linear));
  }
  return view;
}

} // namespace heddle::runtime
