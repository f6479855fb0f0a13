//===- StageLinks.h - Transfers between stages ------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BOUNDS_STAGELINKS_H
#define HEDDLE_LIB_PLANNER_BOUNDS_STAGELINKS_H

#include "heddle/Cost/CollectiveCost.h"
#include <map>

namespace heddle {

/// The seconds of transfers between the devices of two stages. All devices of a
/// stage send at the same time. Transfers of other stages do not count.
class StageLinks {
public:
  /// The first axis of the topology has the stages. The topology must outlive
  /// this object.
  explicit StageLinks(const MeshTopology &topology) : topology(topology) {}

  /// Returns the seconds in which each device of one stage sends `bytes` to
  /// another stage.
  double send(int64_t from, int64_t to, double bytes) {
    return get({{from, to}}, bytes);
  }
  /// Returns the seconds in which the devices of two stages send `bytes` to
  /// each other.
  double exchange(int64_t one, int64_t other, double bytes) {
    return get({{one, other}, {other, one}}, bytes);
  }

private:
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  double get(const Pairs &pairs, double bytes);

  const MeshTopology &topology;
  std::map<std::pair<Pairs, double>, double> seconds;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_STAGELINKS_H
