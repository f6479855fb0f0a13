//===- ReshardSequence.cpp - Collectives between two shardings ------------===//

#include "heddle/Sharding/ReshardSequence.h"
#include "heddle/Sharding/Boundaries.h"
#include "heddle/Sharding/CollectiveCosts.h"

using namespace mlir;
using namespace heddle;

FailureOr<ReshardSequences>
ReshardSequences::create(Operation *at, MeshRef mesh,
                         const ClusterChoice &cluster) {
  SmallVector<int64_t> sizes;
  for (MeshAxisAttr axis : mesh.mesh.getAxes())
    sizes.push_back(axis.getSize());
  auto module = dyn_cast<ModuleOp>(at);
  if (!module)
    module = at->getParentOfType<ModuleOp>();
  AxisMask closed = 0;
  if (module)
    if (auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName))
      closed = getAxisMask(mesh.mesh, pipeline.getAxis());
  if (!cluster.isNone()) {
    auto shared = cluster.getReshardings(sizes, closed);
    if (!shared)
      return at->emitError(llvm::toString(shared.takeError()));
    return ReshardSequences(mesh, std::move(*shared));
  }
  llvm::Expected<MeshTopology> topology = MeshTopology::create(
      makeUniformCluster(mesh.mesh.getNumDevices()), sizes);
  if (!topology)
    return at->emitError(llvm::toString(topology.takeError()));
  return ReshardSequences(
      mesh, std::make_shared<KnownReshardings>(std::move(*topology), closed));
}

FailureOr<std::optional<ReshardSequences>>
ReshardSequences::ofGlobalProgram(ModuleOp module,
                                  const ClusterChoice &cluster) {
  FailureOr<MeshRef> mesh = getMeshOfGlobalProgram(module);
  if (failed(mesh))
    return failure();
  if (!*mesh)
    return std::optional<ReshardSequences>();
  FailureOr<ReshardSequences> sequences = create(module, *mesh, cluster);
  if (failed(sequences))
    return failure();
  return std::optional(std::move(*sequences));
}

TensorLayout ReshardSequences::getLayout(ShardingAttr sharding) const {
  ArrayRef<MeshAxisAttr> axes = mesh.mesh.getAxes();
  auto numberOf = [&](StringAttr name) {
    return unsigned(
        llvm::find_if(
            axes, [&](MeshAxisAttr axis) { return axis.getName() == name; }) -
        axes.begin());
  };
  TensorLayout layout;
  for (AxisListAttr dim : sharding.getDims()) {
    layout.dims.emplace_back();
    for (StringAttr axis : dim.getAxes())
      layout.dims.back().push_back(numberOf(axis));
  }
  layout.partial = getAxisMask(mesh.mesh, sharding.getPartialAxes());
  layout.isMax = sharding.getPartialKind() == ReductionKind::Max;
  return layout;
}

const Resharding &ReshardSequences::find(RankedTensorType type,
                                         ShardingAttr from, ShardingAttr to) {
  auto [entry, isNew] =
      known.try_emplace({type.getAsOpaquePointer(), from.getAsOpaquePointer(),
                         to.getAsOpaquePointer()});
  if (isNew)
    entry->second = &reshardings->find(type.getShape(),
                                       getElementBytes(type.getElementType()),
                                       getLayout(from), getLayout(to));
  return *entry->second;
}

CollectiveCost ReshardSequences::getCost(RankedTensorType type,
                                         ShardingAttr from, ShardingAttr to) {
  return find(type, from, to).cost;
}

SmallVector<ReshardStep> ReshardSequences::plan(RankedTensorType type,
                                                ShardingAttr from,
                                                ShardingAttr to) {
  SmallVector<ReshardStep> steps;
  for (const ReshardingStep &step : find(type, from, to).steps) {
    Axes axes;
    for (unsigned axis : step.axes)
      axes.push_back(mesh.mesh.getAxes()[axis].getName());
    steps.push_back(
        {step.kind, axes, step.dim, step.concatDim,
         SmallVector<int64_t>(step.sources.begin(), step.sources.end()),
         RankedTensorType::get(step.localShape, type.getElementType()),
         SmallVector<bool>(step.isPadded.begin(), step.isPadded.end()),
         step.after.isMax ? ReductionKind::Max : ReductionKind::Sum,
         step.cost});
  }
  return steps;
}
