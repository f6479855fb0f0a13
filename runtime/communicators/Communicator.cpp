//===- Communicator.cpp - Ranks and groups of a mesh ----------------------===//

#include "communicators/Collective.h"

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

//===----------------------------------------------------------------------===//
// Calls as data
//===----------------------------------------------------------------------===//

using Kind = Collective::Kind;

Status Communicator::allReduce(int32_t group, Reduction reduction, DType type,
                               const void *in, void *out, int64_t count) {
  return perform({.kind = Kind::AllReduce,
                  .group = group,
                  .type = type,
                  .in = in,
                  .out = out,
                  .count = count,
                  .reduction = reduction});
}

Status Communicator::allGather(int32_t group, DType type, const void *in,
                               void *out, int64_t count) {
  return perform({.kind = Kind::AllGather,
                  .group = group,
                  .type = type,
                  .in = in,
                  .out = out,
                  .count = count});
}

Status Communicator::reduceScatter(int32_t group, Reduction reduction,
                                   DType type, const void *in, void *out,
                                   int64_t count) {
  return perform({.kind = Kind::ReduceScatter,
                  .group = group,
                  .type = type,
                  .in = in,
                  .out = out,
                  .count = count,
                  .reduction = reduction});
}

Status Communicator::allToAll(int32_t group, DType type, const void *in,
                              void *out, int64_t count) {
  return perform({.kind = Kind::AllToAll,
                  .group = group,
                  .type = type,
                  .in = in,
                  .out = out,
                  .count = count});
}

Status Communicator::broadcast(int32_t group, int32_t root, DType type,
                               const void *in, void *out, int64_t count) {
  return perform({.kind = Kind::Broadcast,
                  .group = group,
                  .type = type,
                  .in = in,
                  .out = out,
                  .count = count,
                  .peer = root});
}

Status Communicator::permute(int32_t group, const int32_t *sources, DType type,
                             const void *in, void *out, int64_t count) {
  return perform({.kind = Kind::Permute,
                  .group = group,
                  .type = type,
                  .in = in,
                  .out = out,
                  .count = count,
                  .sources = sources});
}

Status Communicator::send(int32_t group, int32_t peer, DType type,
                          const void *from, int64_t count) {
  return perform({.kind = Kind::Send,
                  .group = group,
                  .type = type,
                  .in = from,
                  .count = count,
                  .peer = peer});
}

Status Communicator::recv(int32_t group, int32_t peer, DType type, void *to,
                          int64_t count) {
  return perform({.kind = Kind::Recv,
                  .group = group,
                  .type = type,
                  .out = to,
                  .count = count,
                  .peer = peer});
}

} // namespace heddle::runtime
