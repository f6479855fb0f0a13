//===- Pipeline.h - Stages, devices and variables of a pipeline -*- C++ -*-===//

#ifndef HEDDLE_LIB_STAGES_CUT_PIPELINE_H
#define HEDDLE_LIB_STAGES_CUT_PIPELINE_H

#include "StageCosts.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Stages/StageSchedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// The stages of a pipeline and their devices. A device here is a coordinate
/// along the pipeline's axis, so all ranks with that coordinate.
struct Pipeline {
  MeshRef mesh;
  mlir::StringAttr axis;
  int64_t stages = 1, devices = 1;
  llvm::SmallVector<int64_t> deviceOf; ///< by stage
  /// Whether the gradients of weights have a pass of their own.
  bool splitsBackward = false;
  /// Whether all devices wait for each other at the end of a step.
  bool hasBarrier = true;
  std::shared_ptr<StageCosts> costs;

  /// Reads `heddle.pipeline` of the module. Without a cluster, all devices are
  /// equally near.
  static mlir::FailureOr<Pipeline> read(mlir::ModuleOp module,
                                        PipelineAttr attribute,
                                        const ClusterChoice &cluster);

  int64_t getDevice(int64_t stage) const { return deviceOf[stage]; }
  int64_t getLastStage() const { return stages - 1; }
  /// Returns the ranks of the devices in the set; null for all ranks.
  RanksAttr getRanks(const llvm::BitVector &devices) const;
  RanksAttr getRanks(int64_t device) const;
};

/// The stages whose forward passes read a parameter, by the parameter's name.
class VariableOwners {
public:
  explicit VariableOwners(const Pipeline &pipeline) : pipeline(pipeline) {}

  void add(mlir::StringAttr variable, int64_t stage);
  /// Returns the stages that read the variable; none for an unknown one.
  llvm::BitVector getStages(mlir::StringAttr variable) const;
  /// Returns the devices of these stages.
  llvm::BitVector getDevices(mlir::StringAttr variable) const;
  /// Returns all stages of these devices.
  llvm::BitVector getStagesOfDevices(mlir::StringAttr variable) const;
  bool isShared(mlir::StringAttr variable) const {
    return getDevices(variable).count() > 1;
  }

private:
  const Pipeline &pipeline;
  llvm::DenseMap<mlir::StringAttr, llvm::BitVector> stages;
};

/// Returns the parameter that a variable is the state of, or the variable
/// itself.
mlir::StringAttr getParameterOf(VariableOp variable);

/// Returns whether a sharding splits anything, or is partial, over the axis.
bool usesAxis(ShardingAttr sharding, mlir::StringAttr axis);

/// Returns the sharding that the op states for a result, or the function for an
/// argument; null for values that are no tensors.
ShardingAttr getShardingOf(mlir::Value value);

/// Returns the bytes that one device has of a value.
int64_t getLocalBytes(mlir::Value value, MeshRef mesh);

/// Returns the operands of an op and the values that its regions read from
/// outside, each once.
llvm::SmallVector<mlir::Value> getInputs(mlir::Operation *op);

} // namespace heddle

#endif // HEDDLE_LIB_STAGES_CUT_PIPELINE_H
