//===- CollectiveCost.h - Time and traffic of collectives -------*- C++ -*-===//
//
// A mesh on a cluster, and the cost there of a collective over some of its
// axes. Device k of the mesh (row-major, the last axis fastest) is device k of
// the cluster, so an axis spans one or several levels of the topology.
//
// The model is the latency-bandwidth one (alpha-beta) of the ring algorithms,
// as in Thakur, Rabenseifner and Gropp, "Optimization of Collective
// Communication Operations in MPICH" (2005), with the link that is the
// bottleneck. All groups of the axes work at the same time, as the devices run
// one program. In one step every member sends a block of b bytes to the next
// member of its group (in the order of device numbers); a step takes
//
//   s(b) = max alpha_l + b * max (f_l / B_l)         over the levels l in use
//
// where f_l is the number of blocks that cross the busiest unit's links into
// level l in one direction (several groups share them, and a ring through p
// devices of a server crosses its network link once) and B_l is what these
// links carry. A message uses the links of the level that joins both ends, and
// no others. With n members:
//
//   all_gather       (n - 1) s(part)
//   reduce_scatter   (n - 1) s(part)
//   all_reduce     2 (n - 1) s(whole / n)       = reduce_scatter + all_gather
//   all_to_all       sum over k = 1..n-1 of the step in which member i sends
//                    a block to member i + k
//   broadcast        (n - 1) max alpha + s(whole)'s second term (a pipeline)
//   permute          one step, with the blocks that really cross; at least
//                    what a slice takes, if some member keeps its own block or
//                    receives zeros
//   slice, mask      2 * bytes / memory bandwidth
//
// Each collective also takes the launch time of the device. A group of one
// costs only its launch. Hierarchical collectives need no formulas of their
// own: they are sequences of these over fewer axes each.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_COLLECTIVECOST_H
#define HEDDLE_COST_COLLECTIVECOST_H

#include "heddle/Cost/Cluster.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <map>

namespace heddle {

/// A set of mesh axes: bit i is axis i. So collectives have at most 32 axes.
using AxisMask = uint32_t;

struct CollectiveCost {
  double seconds = 0;
  /// The bytes sent by the device that sends most.
  int64_t bytes = 0;

  CollectiveCost &operator+=(const CollectiveCost &other) {
    seconds += other.seconds;
    bytes += other.bytes;
    return *this;
  }
};

class MeshTopology {
public:
  /// Error: the mesh has more devices than the cluster, or more than 32 axes.
  static llvm::Expected<MeshTopology> create(Cluster cluster,
                                             llvm::ArrayRef<int64_t> axisSizes);

  const Cluster &getCluster() const { return cluster; }
  llvm::ArrayRef<int64_t> getAxisSizes() const { return sizes; }
  int64_t getNumDevices() const { return devices; }
  int64_t getSize(AxisMask axes) const;
  /// The axes of the mesh that are in a set, in the mesh's order.
  std::vector<unsigned> listAxes(AxisMask axes) const;
  /// A device's coordinate along an axis.
  int64_t getCoordinate(int64_t device, unsigned axis) const {
    return device / strides[axis] % sizes[axis];
  }
  /// The first device of the group over these axes that contains a device: its
  /// coordinates along these axes are 0.
  int64_t getFirstOfGroup(int64_t device, AxisMask axes) const;
  /// Devices of one unit of the level below a level.
  int64_t getUnitSize(unsigned level) const { return unitSizes[level]; }
  /// The level at which two devices meet: -1 for a device and itself.
  int getMeetingLevel(int64_t a, int64_t b) const;
  /// The outermost level that a message between members of a group of these
  /// axes crosses; -1 if groups have one member.
  int getOutermostLevel(AxisMask axes) const;

  CollectiveCost allGather(AxisMask axes, int64_t partBytes) const;
  CollectiveCost reduceScatter(AxisMask axes, int64_t partBytes) const;
  CollectiveCost allReduce(AxisMask axes, int64_t bytes) const;
  /// `blockBytes`: the bytes that one member sends to one other.
  CollectiveCost allToAll(AxisMask axes, int64_t blockBytes) const;
  CollectiveCost broadcast(AxisMask axes, int64_t bytes) const;
  /// Device i receives `bytes` from device sources[i], or zeros if that is -1.
  CollectiveCost permute(llvm::ArrayRef<int64_t> sources, int64_t bytes) const;
  /// Reads and writes so many bytes of the device's own memory.
  CollectiveCost local(int64_t bytes) const;

private:
  /// The time of one step: a constant, and seconds for each byte of a block.
  struct Step {
    double latency = 0, secondsPerByte = 0;
  };
  Step measure(llvm::ArrayRef<std::pair<int64_t, int64_t>> messages) const;
  /// Members of all groups, each in the order of device numbers.
  std::vector<std::vector<int64_t>> getGroups(AxisMask axes) const;
  /// The step in which every member sends to the member `shift` further on in
  /// its group.
  Step getShift(llvm::ArrayRef<std::vector<int64_t>> groups,
                int64_t shift) const;
  Step getRing(AxisMask axes) const;
  CollectiveCost ring(AxisMask axes, int64_t steps, int64_t blockBytes) const;

  Cluster cluster;
  std::vector<int64_t> sizes, strides;
  /// Devices of one unit of the level below each level.
  std::vector<int64_t> unitSizes;
  int64_t devices = 1;
  /// Steps computed so far. A topology is used by one thread.
  mutable std::map<AxisMask, Step> rings, exchanges;
};

} // namespace heddle

#endif // HEDDLE_COST_COLLECTIVECOST_H
