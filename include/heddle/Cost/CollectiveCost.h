//===- CollectiveCost.h - Time and traffic of collectives -------*- C++ -*-===//
//
// A mesh on a cluster, and the costs of collectives over some of its axes.
// Device k of the mesh (row-major, the last axis fastest) is device k of the
// cluster, so an axis spans one or several levels of the topology.
//
// The model is the latency-bandwidth (alpha-beta) model of ring algorithms, as
// in Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
// Operations in MPICH" (2005). It is applied to the bottleneck link. All groups
// over the axes work at the same time, as all devices run one program. In one
// step, every member sends a block of b bytes to the next member of its group
// (in the order of device numbers). A step takes
//
//   s(b) = mean alpha_l + b * max (f_l / B_l)        over the levels l in use
//
// where the mean is over the messages of a ring, for the slowest group, B_l is
// the total bandwidth of the links that join one unit of the level below (see
// Cluster.h) to level l, and f_l is the number of blocks that cross them in one
// direction, for the busiest unit. Several groups may share the links. A ring
// through p devices of a server crosses the server's network link once. A
// message uses only the links of the level that joins its two ends. The mean
// stands for a block that passes along n - 1 of the n messages and waits for no
// other block; the slowest block takes up to one message more. NCCL's model of
// its rings (tuning.cc) adds up the latencies within and between servers, too.
// With n members:
//
//   all_gather       (n - 1) s(part)
//   reduce_scatter   (n - 1) s(part)
//   all_reduce     2 (n - 1) s(whole / n)       = reduce_scatter + all_gather
//   all_to_all       sum over k = 1..n-1 of the step in which member i sends
//                    a block to member i + k, with the largest alpha
//   broadcast        (n - 1) mean alpha + s(whole)'s second term (a pipeline)
//   permute          one step, with the largest alpha, and the blocks that
//                    really cross; if some member keeps its own block or
//                    receives zeros, at least the time of a slice (see below)
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

/// A set of mesh axes: bit i is axis i. So a mesh has at most 32 axes.
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
  /// Places a mesh on a cluster. Fails if the mesh has more devices than the
  /// cluster, or more than 32 axes.
  static llvm::Expected<MeshTopology> create(Cluster cluster,
                                             llvm::ArrayRef<int64_t> axisSizes);

  const Cluster &getCluster() const { return cluster; }
  llvm::ArrayRef<int64_t> getAxisSizes() const { return sizes; }
  int64_t getNumDevices() const { return devices; }
  int64_t getSize(AxisMask axes) const;
  /// Returns the axes of a set, in the mesh's order.
  std::vector<unsigned> listAxes(AxisMask axes) const;
  /// Returns a device's coordinate along an axis.
  int64_t getCoordinate(int64_t device, unsigned axis) const {
    return device / strides[axis] % sizes[axis];
  }
  /// Returns the first device of the group over `axes` that contains `device`.
  /// Its coordinates along these axes are 0.
  int64_t getFirstOfGroup(int64_t device, AxisMask axes) const;
  /// Returns the number of devices in a unit of the level below `level`.
  int64_t getUnitSize(unsigned level) const { return unitSizes[level]; }
  /// Returns the level whose links join two devices; -1 if they are the same.
  int getMeetingLevel(int64_t a, int64_t b) const;
  /// Returns the mean latency of the messages of a ring through `members`.
  double getRingLatency(llvm::ArrayRef<int64_t> members) const;
  /// Returns the outermost level that a message between members of a group over
  /// `axes` crosses; -1 if groups have one member.
  int getOutermostLevel(AxisMask axes) const;

  CollectiveCost allGather(AxisMask axes, int64_t partBytes) const;
  CollectiveCost reduceScatter(AxisMask axes, int64_t partBytes) const;
  CollectiveCost allReduce(AxisMask axes, int64_t bytes) const;
  /// `blockBytes`: the bytes that one member sends to one other member.
  CollectiveCost allToAll(AxisMask axes, int64_t blockBytes) const;
  CollectiveCost broadcast(AxisMask axes, int64_t bytes) const;
  /// Device i receives `bytes` from device sources[i], or zeros if that is -1.
  CollectiveCost permute(llvm::ArrayRef<int64_t> sources, int64_t bytes) const;
  /// In each group over `axes`, member i receives `bytes` from member
  /// sources[i], or zeros if that is -1. Members are numbered along `axes`, the
  /// last one fastest.
  CollectiveCost permuteMembers(llvm::ArrayRef<unsigned> axes,
                                llvm::ArrayRef<int64_t> sources,
                                int64_t bytes) const;
  /// The cost of reading and writing `bytes` of the device's own memory.
  CollectiveCost local(int64_t bytes) const;

private:
  /// The time of one step: a latency, and seconds for each byte of a block.
  struct Step {
    double latency = 0, secondsPerByte = 0;
  };
  /// The transfers of a permute, whatever their size.
  struct Transfers {
    Step step;
    int64_t most = 0;     ///< the transfers of the device that sends most
    bool isLocal = false; ///< some device reads nothing of another one
  };
  Transfers getTransfers(llvm::ArrayRef<int64_t> sources) const;
  CollectiveCost getCost(const Transfers &transfers, int64_t bytes) const;
  Step measure(llvm::ArrayRef<std::pair<int64_t, int64_t>> messages) const;
  /// Returns the members of each group, in the order of device numbers.
  std::vector<std::vector<int64_t>> getGroups(AxisMask axes) const;
  /// Returns the step in which every member sends to the member `shift` places
  /// further on in its group.
  Step getShift(llvm::ArrayRef<std::vector<int64_t>> groups,
                int64_t shift) const;
  Step getRing(AxisMask axes) const;
  CollectiveCost ring(AxisMask axes, int64_t steps, int64_t blockBytes) const;

  Cluster cluster;
  std::vector<int64_t> sizes, strides;
  /// The number of devices in one unit of the level below each level.
  std::vector<int64_t> unitSizes;
  int64_t devices = 1;
  /// Results that are kept for the next call. The const functions add to them,
  /// so a topology belongs to one thread.
  mutable std::map<AxisMask, Step> rings, exchanges;
  mutable std::map<AxisMask, int> outermostLevels;
  using Members = std::pair<std::vector<unsigned>, std::vector<int64_t>>;
  mutable std::map<Members, Transfers> permutes;
};

} // namespace heddle

#endif // HEDDLE_COST_COLLECTIVECOST_H
