//===- VerifyPipeline.cpp - Checks the programs of a pipeline -------------===//

#include "VerifyPipeline.h"
#include "heddle/Stages/StageSchedule.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace heddle;

namespace {
class PipelineVerifier {
public:
  PipelineVerifier(ModuleOp module, PipelineAttr pipeline)
      : module(module), pipeline(pipeline) {}

  LogicalResult verify() {
    if (failed(readSchedule()))
      return failure();
    for (auto program : module.getOps<rt::ProgramOp>())
      if (auto part = getPart(program))
        if (failed(verifyPlace(program, part)))
          return failure();
    for (auto program : module.getOps<rt::ProgramOp>())
      if (auto part = getPart(program))
        if (failed(verifyInputs(program, part)))
          return failure();
    return success();
  }

private:
  static StageProgramAttr getPart(rt::ProgramOp program) {
    return program->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
  }

  LogicalResult readSchedule() {
    auto meshes = module.getOps<MeshOp>();
    if (!meshes.empty())
      devices = (*meshes.begin()).getMesh().getAxisSize(pipeline.getAxis());
    if (devices == 0)
      return module.emitError()
             << "expected a mesh with the axis " << pipeline.getAxis() << " of "
             << kPipelineAttrName << ", got none";
    auto table = module->getAttrOfType<StringAttr>(kStageTableAttrName);
    auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
    llvm::Expected<StageSchedule> made =
        getSchedule(pipeline, table ? table.getValue() : "", devices,
                    count ? count.getInt() : 0);
    if (!made)
      return module.emitError() << llvm::toString(made.takeError());
    schedule = std::move(*made);
    return success();
  }

  /// Checks the stage or device of a program and its ranks, and that no other
  /// program has the same stage and kind. Records the values that the program
  /// makes.
  LogicalResult verifyPlace(rt::ProgramOp program, StageProgramAttr part) {
    bool isOfDevice = isOncePerStep(part.getWork());
    int64_t stage = part.getStage(),
            end = isOfDevice ? devices : schedule.getNumStages();
    if (stage < 0 || stage >= end)
      return program.emitOpError()
             << "expected a " << (isOfDevice ? "device" : "stage")
             << " of the pipeline, below " << end << ", got " << stage;
    int64_t device = isOfDevice ? stage : schedule.deviceOf[stage];
    auto ranks = program->getAttrOfType<RanksAttr>(kRanksAttrName);
    bool isOnDevice = !ranks && devices == 1;
    if (ranks && ranks.getWhere().size() == 1) {
      CoordinatesAttr where = ranks.getWhere().front();
      isOnDevice = where.getAxis() == pipeline.getAxis() &&
                   where.getValues() == ArrayRef<int64_t>(device);
    }
    if (!isOnDevice)
      return program.emitOpError()
             << "expected the ranks with " << pipeline.getAxis() << " = "
             << device << ", which have this stage";
    auto [other, isNew] = parts.try_emplace(part, program);
    if (!isNew) {
      auto diagnostic = program.emitOpError()
                        << "expected one program of this stage and kind";
      diagnostic.attachNote(other->second.getLoc()) << "the other is here";
      return diagnostic;
    }
    for (auto port : program.getOutputs().getAsRange<rt::PortAttr>())
      if (!port.getRole())
        makers[{part.getEntry(), port.getName()}] = part;
    return success();
  }

  /// Returns the position of a part in the order in which one micro-batch runs
  /// through all parts.
  int64_t getPosition(StageProgramAttr part) const {
    int64_t stages = schedule.getNumStages();
    switch (part.getWork()) {
    case StageWork::Forward:
      return part.getStage();
    case StageWork::Backward:
      return 2 * stages - 1 - part.getStage();
    case StageWork::BackwardWeights:
      return 2 * stages;
    case StageWork::SendGradients:
      return 2 * stages + 1;
    case StageWork::Update:
      return 2 * stages + 2;
    case StageWork::Report:
      return 2 * stages + 3 + part.getStage(); // here, the stage is a device
    }
    return 0;
  }

  LogicalResult verifyInputs(rt::ProgramOp program, StageProgramAttr part) {
    // A stage's weight-gradient pass may run at any time after the stage's
    // backward pass.
    int64_t end = part.getWork() == StageWork::BackwardWeights
                      ? 2 * schedule.getNumStages() - part.getStage()
                      : getPosition(part);
    for (auto port : program.getInputs().getAsRange<rt::PortAttr>()) {
      if (port.getRole())
        continue;
      StageProgramAttr maker = makers.lookup({part.getEntry(), port.getName()});
      if (!maker)
        continue;
      if (getPosition(maker) >= end)
        return program.emitOpError() << "reads " << port.getName()
                                     << ", which the pipeline makes later";
    }
    return success();
  }

  ModuleOp module;
  PipelineAttr pipeline;
  int64_t devices = 0;
  StageSchedule schedule;
  llvm::DenseMap<Attribute, rt::ProgramOp> parts;
  /// By entry point and name of a value.
  llvm::DenseMap<std::pair<StringAttr, StringAttr>, StageProgramAttr> makers;
};
} // namespace

LogicalResult heddle::verifyPipeline(ModuleOp module) {
  auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName);
  return pipeline ? PipelineVerifier(module, pipeline).verify() : success();
}
