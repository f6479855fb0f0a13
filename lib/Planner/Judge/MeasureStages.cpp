//===- MeasureStages.cpp - The figures of a compiled pipeline -------------===//

#include "StagePieces.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Simulate/Simulate.h"
#include <algorithm>
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

namespace {

class Measurer {
public:
  Measurer(ModuleOp module, const Cluster &cluster)
      : module(module), cluster(cluster), model(module, cluster) {}

  FailureOr<CompiledStages> run();

private:
  using Part = std::pair<StageWork, int64_t>; ///< work and stage

  LogicalResult measurePasses(rt::ProgramOp program, Part part);
  void measureValues();
  void measureMemory();
  FailureOr<double> measureUpdate();

  ModuleOp module;
  const Cluster &cluster;
  RooflineCostModel model;
  StagePiece stages[2];
};

} // namespace

static bool isPass(StageWork work) {
  return work == StageWork::Forward || work == StageWork::Backward ||
         work == StageWork::BackwardWeights;
}

/// Returns the part that a program has in the pipeline of the step. Null if it
/// has none.
static StageProgramAttr getPart(rt::ProgramOp program) {
  auto part = program->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
  return part && part.getEntry().getValue() == "step" ? part
                                                      : StageProgramAttr();
}

LogicalResult Measurer::measurePasses(rt::ProgramOp program, Part part) {
  if (part.second < 0 || part.second > 1)
    return program.emitError()
           << "expected a pipeline of two stages to measure, got stage "
           << part.second;
  CallList alone;
  alone.ranks = program->getAttrOfType<RanksAttr>(kRanksAttrName);
  alone.calls = {{program, 1}};
  SimulateOptions timesAlone;
  timesAlone.plansMemory = false;
  FailureOr<Simulation> simulation =
      simulate(module, alone, cluster, model, timesAlone);
  if (failed(simulation))
    return failure();
  auto [work, stage] = part;
  StagePiece &piece = stages[stage];
  (work == StageWork::Forward    ? piece.forward
   : work == StageWork::Backward ? piece.backward
                                 : piece.weights) = simulation->seconds;
  piece.exposed += simulation->exposed;
  return success();
}

/// Adds up the bytes of the values that pass between programs, by how long they
/// stay.
void Measurer::measureValues() {
  std::map<StringRef, std::pair<Part, double>> made;
  std::map<StringRef, std::set<Part>> readers;
  for (auto program : module.getOps<rt::ProgramOp>()) {
    StageProgramAttr part = getPart(program);
    if (part && part.getWork() == StageWork::SendGradients)
      for (auto port : program.getOutputs().getAsRange<rt::PortAttr>())
        for (StagePiece &piece : stages)
          piece.exchanged +=
              double(rt::getByteSize(rt::getLocalType(module, port)));
    if (!part || !isPass(part.getWork()))
      continue;
    Part own(part.getWork(), part.getStage());
    for (auto port : program.getOutputs().getAsRange<rt::PortAttr>())
      if (!port.getRole())
        made[port.getName().getValue()] = {
            own, double(rt::getByteSize(rt::getLocalType(module, port)))};
    for (auto port : program.getInputs().getAsRange<rt::PortAttr>())
      if (!port.getRole())
        readers[port.getName().getValue()].insert(own);
  }
  for (const auto &[name, maker] : made) {
    auto [part, bytes] = maker;
    auto [work, stage] = part;
    for (int64_t at : {0, 1}) {
      bool isRead = false, isReadByWeights = false, isReadBackward = false;
      for (auto [by, of] : readers[name]) {
        isRead |= of == at;
        isReadByWeights |= of == at && by == StageWork::BackwardWeights;
        isReadBackward |= of == at && by == StageWork::Backward;
      }
      StagePiece &piece = stages[at];
      if (isReadByWeights)
        (work == StageWork::Forward ? piece.keptForWeights : piece.pending) +=
            bytes;
      else if (isReadBackward && work == StageWork::Forward)
        piece.kept += bytes;
      if (isRead && at != stage)
        (at > stage ? stages[stage].sent : stages[stage].returned) += bytes;
    }
  }
}

void Measurer::measureMemory() {
  // Only schedule tables read this attribute. A table that was ordered by times
  // is valid for one number of micro-batches.
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
  Attribute table = module->removeAttr(kStageTableAttrName);
  std::vector<DeviceMemoryPlan> plans = getDeviceMemoryPlans(module);
  module->setAttr(kMicroBatchesAttrName,
                  IntegerAttr::get(count.getType(), 2 * count.getInt()));
  std::vector<DeviceMemoryPlan> doubled = getDeviceMemoryPlans(module);
  module->setAttr(kMicroBatchesAttrName, count);
  if (table)
    module->setAttr(kStageTableAttrName, table);
  for (int64_t stage : {0, 1}) {
    StagePiece &piece = stages[stage];
    const DeviceMemoryPlan &plan = plans[stage];
    piece.parameters = double(plan.parameters);
    piece.optimizerState = double(plan.optimizerState);
    piece.gradients = double(plan.gradients);
    piece.counters = double(plan.counters);
    piece.arena = double(plan.arena);
    int64_t more = doubled[stage].argumentsAndResults;
    piece.argumentsOfMicroBatch =
        double(more - plan.argumentsAndResults) / double(count.getInt());
    piece.argumentsAndResults = double(2 * plan.argumentsAndResults - more);
  }
}

FailureOr<double> Measurer::measureUpdate() {
  llvm::Expected<std::vector<CallList>> lists = getEntry(module, "step");
  if (!lists)
    return module.emitError() << llvm::toString(lists.takeError());
  FailureOr<Simulation> simulation = simulate(module, *lists, cluster, model);
  if (failed(simulation))
    return failure();
  // The end of all passes and transfers between stages. An exchange of the
  // gradients of a table takes a different time between other devices.
  double end = 0;
  for (const SimulatedCall &call : simulation->calls) {
    rt::ProgramOp program = (*lists)[call.list].calls[call.entry].program;
    StageProgramAttr part = program ? getPart(program) : StageProgramAttr();
    if (!program || (part && isPass(part.getWork())))
      end = std::max(end, call.end);
  }
  return simulation->seconds - end;
}

FailureOr<CompiledStages> Measurer::run() {
  for (auto program : module.getOps<rt::ProgramOp>())
    if (StageProgramAttr part = getPart(program))
      if (isPass(part.getWork()) &&
          failed(measurePasses(program, {part.getWork(), part.getStage()})))
        return failure();
  measureValues();
  measureMemory();
  FailureOr<double> update = measureUpdate();
  if (failed(update))
    return failure();
  CompiledStages result;
  result.first = stages[0];
  result.last = stages[1];
  result.update = *update;
  return result;
}

FailureOr<CompiledStages>
heddle::measureStages(ModuleOp module, const Cluster &cluster, int64_t layers) {
  FailureOr<CompiledStages> stages = Measurer(module, cluster).run();
  if (succeeded(stages))
    stages->layers = layers;
  return stages;
}
