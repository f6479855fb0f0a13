//===- PredictStep.cpp - Time and memory of a plan, op by op --------------===//

#include "../Program/Liveness.h"
#include "../Program/Weights.h"
#include "Costs.h"
#include "LocalWork.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Planner/Operators.h"
#include "heddle/Sharding/CollectiveCosts.h"

using namespace mlir;
using namespace heddle;

/// Returns the copy of the module for one device, with explicit collectives.
/// Only programs that a step runs are kept. Stages are not cut.
static FailureOr<OwningOpRef<ModuleOp>>
localize(ModuleOp module, const Plan &plan, const MeshTopology &topology) {
  OwningOpRef<ModuleOp> copy = module.clone();
  StepWeights weights(*copy, 0);
  SmallVector<func::FuncOp> unused;
  for (auto function : copy->getOps<func::FuncOp>())
    if (!function.isExternal() && weights.get(function) == 0)
      unused.push_back(function);
  for (func::FuncOp function : unused)
    function.erase();
  Plan whole = plan;
  whole.numStages = 0;
  whole.stages.clear();
  whole.scheduleTable.clear();
  CompileOptions options;
  options.planText = writePlan(whole);
  options.choosesSchedule = false;
  options.planPath = plan.source.empty() ? "plan" : plan.source;
  options.cluster = ClusterChoice(topology.getCluster());
  options.verification = Verification::LastPhase;
  if (failed(runPhases(*copy, options, Phase::Localized)))
    return failure();
  return copy;
}

namespace {
class Predictor {
public:
  Predictor(ModuleOp module, MeshAttr mesh, const MeshTopology &topology,
            const Exposure &exposure, int64_t microBatches)
      : module(module), mesh(mesh), topology(topology), exposure(exposure),
        weights(module, microBatches) {}

  FailureOr<StepPrediction> run();

private:
  void addVariables();
  void addCollective(Operation *op);
  LogicalResult addWork(Operation *op);

  ModuleOp module;
  MeshAttr mesh;
  const MeshTopology &topology;
  const Exposure &exposure;
  StepWeights weights;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, unsigned> indexOf;
  DenseSet<Operation *> fusable;
  StepPrediction result;
};
} // namespace

void Predictor::addVariables() {
  for (VariableOp variable : module.getOps<VariableOp>()) {
    RankedTensorType type = variable.getTensorType();
    if (ShardingAttr storage = variable.getStorageAttr())
      type = storage.getLocalType(type, mesh);
    int64_t bytes = getBytes(type);
    if (variable.isOfModel())
      result.memory.parameters += bytes;
    else if (variable.getRole() == VariableRole::Gradient)
      result.memory.gradients += bytes;
    else
      result.memory.optimizerState += bytes;
  }
}

void Predictor::addCollective(Operation *op) {
  CollectiveCost cost = getCollectiveCost(op, mesh, topology);
  AxisMask mask = getAxisMask(mesh, getCollectiveAxes(op).getAxes());
  double seconds = cost.seconds * weights.get(op);
  result.communicationSeconds += seconds;
  result.exposedSeconds +=
      seconds *
      exposure.get(getCollectiveKind(op), topology.getOutermostLevel(mask));
}

LogicalResult Predictor::addWork(Operation *op) {
  OpClass made;
  made.ops = {op};
  made.isFusable = fusable.contains(op);
  findKernelBorders(
      made, [&](Operation *other) { return fusable.contains(other); }, indexOf);
  Work work = cast<WorkOpInterface>(op).getWork();
  leaveOutInside(made, op, work);
  if (work.flops == 0 && work.bytesRead + work.bytesWritten == 0)
    return success();
  FailureOr<double> peak = getPeakOf(op, topology.getCluster());
  if (failed(peak))
    return failure();
  ClusterDevice device = topology.getCluster().device;
  if (!made.launches)
    device.launch = 0;
  result.computeSeconds +=
      getRooflineSeconds(work, *peak, device) * weights.get(op);
  return success();
}

FailureOr<StepPrediction> Predictor::run() {
  addVariables();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (getCollectiveAxes(op)) {
        addCollective(op);
        indexOf[op] = ops.size();
        ops.push_back(op);
        return WalkResult::skip();
      }
      if (!isa<WorkOpInterface>(op))
        return WalkResult::advance();
      indexOf[op] = ops.size();
      ops.push_back(op);
      if (isFusableOp(op, getRule(op)))
        fusable.insert(op);
      return WalkResult::skip();
    });
  }
  for (Operation *op : ops)
    if (!getCollectiveAxes(op) && failed(addWork(op)))
      return failure();
  for (const LiveResult &live :
       findLiveAtPeak(ops, [&](Operation *op) { return fusable.contains(op); }))
    result.memory.activations +=
        getBytes(live.op->getResult(live.result).getType());
  return result;
}

FailureOr<StepPrediction> heddle::predictStep(ModuleOp module, const Plan &plan,
                                              const MeshTopology &topology,
                                              const Exposure &exposure,
                                              int64_t microBatches) {
  FailureOr<OwningOpRef<ModuleOp>> local = localize(module, plan, topology);
  if (failed(local))
    return failure();
  // The plan's axes may have been refined.
  MeshRef mesh = getMesh(**local);
  if (!mesh)
    return (**local).emitError("expected a mesh in the localized program");
  std::vector<int64_t> sizes;
  for (MeshAxisAttr axis : mesh.mesh.getAxes())
    sizes.push_back(axis.getSize());
  llvm::Expected<MeshTopology> refined =
      MeshTopology::create(topology.getCluster(), sizes);
  if (!refined)
    return (**local).emitError(llvm::toString(refined.takeError()));
  return Predictor(**local, mesh.mesh, *refined, exposure, microBatches).run();
}
