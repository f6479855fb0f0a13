//===- OrderStages.cpp - Schedules of stages by their times ---------------===//

#include "OrderStages.h"
#include "CostModels.h"
#include "heddle/Simulate/Simulate.h"
#include "heddle/Stages/StageSchedule.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace heddle;

/// Returns the seconds of each stage's programs of the step, by simulation of
/// each one alone. Returns failure, and says nothing, if a program has no time.
static FailureOr<std::vector<StageTimes>> measureStages(ModuleOp module,
                                                        int64_t stages,
                                                        const Cluster &cluster,
                                                        CostModel &model) {
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](Diagnostic &) { return success(); });
  std::vector<StageTimes> times(stages, {0, 0, 0});
  SimulateOptions timesAlone;
  timesAlone.plansMemory = false;
  for (auto program : module.getOps<rt::ProgramOp>()) {
    auto part = program->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
    if (!part ||
        part.getEntry().getValue() != stringifyProgramRole(ProgramRole::Step))
      continue;
    StageWork work = part.getWork();
    if (work != StageWork::Forward && work != StageWork::Backward &&
        work != StageWork::BackwardWeights)
      continue;
    CallList alone;
    alone.ranks = program->getAttrOfType<RanksAttr>(kRanksAttrName);
    alone.calls.push_back({program});
    FailureOr<Simulation> simulation =
        simulate(module, {alone}, cluster, model, timesAlone);
    if (failed(simulation))
      return failure();
    StageTimes &own = times[part.getStage()];
    (work == StageWork::Forward    ? own.forward
     : work == StageWork::Backward ? own.backward
                                   : own.weights) = simulation->seconds;
  }
  return times;
}

LogicalResult heddle::orderStages(ModuleOp module,
                                  const CompileOptions &options) {
  auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName);
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
  if (!pipeline || !count || options.cluster.isNone() ||
      module->hasAttr(kStageTableAttrName))
    return success();
  llvm::Expected<const Cluster &> cluster = options.cluster.load();
  if (!cluster)
    return module.emitError() << llvm::toString(cluster.takeError());
  std::unique_ptr<CostModel> model = makeCostModel(module, options, *cluster);
  FailureOr<std::vector<StageTimes>> times =
      measureStages(module, pipeline.getStages(), *cluster, *model);
  if (failed(times))
    return success();
  ScheduleProblem problem;
  problem.schedule = pipeline.getSchedule();
  MeshOp mesh = *module.getOps<MeshOp>().begin();
  problem.devices = mesh.getMesh().getAxisSize(pipeline.getAxis());
  problem.stages = pipeline.getStages();
  problem.microBatches = count.getInt();
  problem.times = std::move(*times);
  problem.hasBarrier = !module->hasAttr(kNoStepBarrierAttrName);
  llvm::Expected<StageSchedule> schedule = makeSchedule(problem);
  if (!schedule)
    return module.emitError() << llvm::toString(schedule.takeError());
  module->setAttr(
      kStageTableAttrName,
      StringAttr::get(module.getContext(), writeSchedule(*schedule)));
  return success();
}
