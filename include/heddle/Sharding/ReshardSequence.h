//===- ReshardSequence.h - Collectives between two shardings ----*- C++ -*-===//

#ifndef HEDDLE_SHARDING_RESHARDSEQUENCE_H
#define HEDDLE_SHARDING_RESHARDSEQUENCE_H

#include "heddle/Cost/ClusterChoice.h"
#include "heddle/Cost/Resharding.h"
#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// One step of a resharding: a ReshardingStep with names of axes.
struct ReshardStep {
  ReshardingStep::Kind kind;
  Axes axes;
  int64_t dim = 0, concatDim = 0;
  llvm::SmallVector<int64_t> sources = {};
  /// The local type after the step, the dimensions in which some device has
  /// padding, and how the parts of a partial value combine.
  mlir::RankedTensorType type;
  llvm::SmallVector<bool> isPadded;
  ReductionKind partialKind;
  CollectiveCost cost;
};

/// Finds the cheapest steps between shardings over one mesh on a cluster. It
/// works on global sizes, so that parts that do not nest (a dimension of size S
/// over axes a, b with ceil(S / a) != b * ceil(S / (a * b))) are never cut from
/// each other.
class ReshardSequences {
public:
  /// Without a cluster, all devices are equally near. If the module of `at` is
  /// a pipeline, the axis of its stages is used only between shardings that use
  /// it. Emits errors on `at`.
  static mlir::FailureOr<ReshardSequences>
  create(mlir::Operation *at, MeshRef mesh, const ClusterChoice &cluster);
  /// Takes the mesh from getMeshOfGlobalProgram, whose errors it shares.
  /// Returns nothing if the module has no mesh: then no pass has anything to
  /// reshard.
  static mlir::FailureOr<std::optional<ReshardSequences>>
  ofGlobalProgram(mlir::ModuleOp module, const ClusterChoice &cluster);
  ReshardSequences(MeshRef mesh, std::shared_ptr<KnownReshardings> reshardings)
      : mesh(mesh), reshardings(std::move(reshardings)) {}

  MeshRef getMesh() const { return mesh; }
  const MeshTopology &getTopology() const { return reshardings->getTopology(); }

  /// Returns the steps from one sharding of a tensor to another. Empty if the
  /// shardings differ only in axes of size 1. The shardings must have the
  /// type's rank and axes of the mesh.
  llvm::SmallVector<ReshardStep> plan(mlir::RankedTensorType type,
                                      ShardingAttr from, ShardingAttr to);
  /// Returns the cost of all steps.
  CollectiveCost getCost(mlir::RankedTensorType type, ShardingAttr from,
                         ShardingAttr to);

  /// Returns the steps with the axes' numbers instead of their names.
  const Resharding &find(mlir::RankedTensorType type, ShardingAttr from,
                         ShardingAttr to);

private:
  TensorLayout getLayout(ShardingAttr sharding) const;

  MeshRef mesh;
  std::shared_ptr<KnownReshardings> reshardings;
  std::map<std::tuple<const void *, const void *, const void *>,
           const Resharding *>
      known;
};

} // namespace heddle

#endif // HEDDLE_SHARDING_RESHARDSEQUENCE_H
