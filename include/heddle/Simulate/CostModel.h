//===- CostModel.h - Seconds of single calls --------------------*- C++ -*-===//
//
// The seconds that the simulator assumes for the calls of an rt.program. A cost
// model prices single calls. The simulator knows their order, and which of them
// run at the same time.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SIMULATE_COSTMODEL_H
#define HEDDLE_SIMULATE_COSTMODEL_H

#include "dialects/Rt/Rt.h"
#include "heddle/Cost/Cluster.h"
#include "heddle/Simulate/CallWork.h"
#include "heddle/Simulate/RankDevices.h"
#include <memory>

namespace heddle {

enum class CommunicationKind {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  Permute,
  Transfer, ///< a send and its receive
};

/// A collective or transfer, without the memory that it moves.
struct Communication {
  CommunicationKind kind;
  /// The mesh axes of its groups, by index, major first.
  llvm::SmallVector<unsigned> axes;
  /// The bytes of the whole operand for AllReduce, Broadcast, Permute and
  /// Transfer; of one member's part for AllGather and ReduceScatter; sent by
  /// one member to another one for AllToAll.
  int64_t bytes = 0;
  /// Permute: member i receives from member sources[i], or zeros if that is -1.
  llvm::SmallVector<int64_t> sources;
};

class CostModel {
public:
  virtual ~CostModel();

  /// Returns the seconds of a computing call that has its device for itself,
  /// its launch included. Emits an error if the model cannot know them.
  virtual mlir::FailureOr<double>
  getSeconds(rt::DeviceCallOpInterface call) = 0;

  /// Returns the seconds of a communication that has the links for itself, its
  /// launch included. `linkSeconds` is the time by latency and bandwidth of the
  /// links, as MeshTopology computes it. If a model returns another time, the
  /// simulator scales latency and bytes alike.
  virtual double getSeconds(const Communication &communication,
                            double linkSeconds) {
    return linkSeconds;
  }

  /// Returns the factor by which a computing call takes longer while
  /// communication of load 1 is under way on its device; at least 1.
  virtual double getSlowdown(rt::DeviceCallOpInterface call) { return 1; }
  /// Returns how much of the device a communication of `seconds` occupies, from
  /// 0 (it only waits for links) to 1.
  virtual double getLoad(const Communication &communication, double seconds) {
    return 1;
  }
  /// Returns the seconds from the end of a call until a call on another stream
  /// that has waited for it starts.
  virtual double getWake() const { return 0; }
  /// Returns the seconds of a step before its first call and after its last.
  virtual double getStart() const { return 0; }
};

/// Computing calls take the launch time of their ranks' device, and then the
/// longer of FLOPs / rate and bytes / memory rate: peaks times efficiency. The
/// rate is by the element type of a product's or attention's operands. Kernels
/// compute in f32. Communication takes the time of the links, and slows nothing
/// down.
class RooflineCostModel final : public CostModel {
public:
  RooflineCostModel(mlir::ModuleOp module, const Cluster &cluster);

  using CostModel::getSeconds;
  mlir::FailureOr<double> getSeconds(rt::DeviceCallOpInterface call) override;

private:
  const Cluster &cluster;
  RankDevices devices;
  CallWork works;
};

} // namespace heddle

#endif // HEDDLE_SIMULATE_COSTMODEL_H
