//===- Pipeline.cpp - Stages, devices and variables of a pipeline ---------===//

#include "Pipeline.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

bool heddle::usesAxis(ShardingAttr sharding, StringAttr axis) {
  return llvm::is_contained(sharding.getPartialAxes(), axis) ||
         llvm::any_of(sharding.getDims(), [&](AxisListAttr dim) {
           return llvm::is_contained(dim.getAxes(), axis);
         });
}

FailureOr<Pipeline> Pipeline::read(ModuleOp module, PipelineAttr attribute,
                                   const ClusterChoice &cluster) {
  Pipeline pipeline;
  pipeline.mesh = getMesh(module);
  pipeline.axis = attribute.getAxis();
  pipeline.stages = attribute.getStages();
  pipeline.devices =
      pipeline.mesh ? pipeline.mesh.mesh.getAxisSize(pipeline.axis) : 0;
  if (pipeline.devices == 0)
    return module.emitError()
           << "expected a mesh with the axis " << pipeline.axis << " of "
           << kPipelineAttrName << ", got none";
  auto table = module->getAttrOfType<StringAttr>(kStageTableAttrName);
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
  llvm::Expected<StageSchedule> schedule =
      getSchedule(attribute, table ? table.getValue() : "", pipeline.devices,
                  count ? count.getInt() : 0);
  if (!schedule)
    return module.emitError() << llvm::toString(schedule.takeError());
  pipeline.deviceOf.assign(schedule->deviceOf.begin(),
                           schedule->deviceOf.end());
  pipeline.splitsBackward = schedule->splitsBackward;
  pipeline.hasBarrier = !module->hasAttr(kNoStepBarrierAttrName);
  FailureOr<ReshardSequences> sequences =
      ReshardSequences::create(module, pipeline.mesh, cluster);
  if (failed(sequences))
    return failure();
  pipeline.costs = std::make_shared<StageCosts>(pipeline.mesh, pipeline.axis,
                                                std::move(*sequences));
  // Every rank of a stage does the same, but for the other axes.
  WalkResult walked = module.walk([&](Operation *op) {
    auto check = [&](Attribute attribute) {
      auto sharding = dyn_cast_if_present<ShardingAttr>(attribute);
      return !sharding || !usesAxis(sharding, pipeline.axis);
    };
    bool isGood = check(op->getAttr(kShardingAttrName));
    if (auto list = op->getAttrOfType<ArrayAttr>(kShardingAttrName))
      isGood = llvm::all_of(list, check);
    if (auto variable = dyn_cast<VariableOp>(op))
      isGood &= check(variable.getStorageAttr());
    if (isGood)
      return WalkResult::advance();
    op->emitOpError() << "is split over " << pipeline.axis
                      << ", the axis of the pipeline's stages: expected no "
                         "other use of it";
    return WalkResult::interrupt();
  });
  if (walked.wasInterrupted())
    return failure();
  return pipeline;
}

RanksAttr Pipeline::getRanks(const llvm::BitVector &of) const {
  if (of.all())
    return RanksAttr();
  SmallVector<int64_t> values(of.set_bits_begin(), of.set_bits_end());
  return RanksAttr::get(axis.getContext(), mesh.symbol,
                        CoordinatesAttr::get(axis.getContext(), axis, values));
}

RanksAttr Pipeline::getRanks(int64_t device) const {
  llvm::BitVector one(devices);
  one.set(device);
  return getRanks(one);
}

void VariableOwners::add(StringAttr variable, int64_t stage) {
  llvm::BitVector &own = stages[variable];
  own.resize(pipeline.stages);
  own.set(stage);
}

llvm::BitVector VariableOwners::getStages(StringAttr variable) const {
  auto known = stages.find(variable);
  return known == stages.end() ? llvm::BitVector(pipeline.stages)
                               : known->second;
}

llvm::BitVector VariableOwners::getDevices(StringAttr variable) const {
  llvm::BitVector devices(pipeline.devices), own = getStages(variable);
  for (unsigned stage : own.set_bits())
    devices.set(pipeline.getDevice(stage));
  return devices;
}

llvm::BitVector VariableOwners::getStagesOfDevices(StringAttr variable) const {
  llvm::BitVector devices = getDevices(variable), all(pipeline.stages);
  for (int64_t stage = 0; stage < pipeline.stages; ++stage)
    all[stage] = devices[pipeline.getDevice(stage)];
  return all;
}

StringAttr heddle::getParameterOf(VariableOp variable) {
  if (StateAttr state = variable.getStateAttr())
    return state.getParameter().getAttr();
  return variable.getSymNameAttr();
}

ShardingAttr heddle::getShardingOf(Value value) {
  if (!isa<RankedTensorType>(value.getType()))
    return ShardingAttr();
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return function ? function.getArgAttrOfType<ShardingAttr>(
                          argument.getArgNumber(), kShardingAttrName)
                    : ShardingAttr();
  }
  auto result = cast<OpResult>(value);
  if (auto reshard = dyn_cast<ReshardOp>(result.getOwner()))
    return reshard.getTo();
  Attribute stated = result.getOwner()->getAttr(kShardingAttrName);
  if (auto list = dyn_cast_if_present<ArrayAttr>(stated)) {
    unsigned index = llvm::count_if(
        result.getOwner()->getResults().take_front(result.getResultNumber()),
        [](Value other) { return isa<RankedTensorType>(other.getType()); });
    stated = index < list.size() ? list[index] : Attribute();
  }
  return dyn_cast_if_present<ShardingAttr>(stated);
}

int64_t heddle::getLocalBytes(Value value, MeshRef mesh) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return 0;
  ShardingAttr sharding = getShardingOf(value);
  return getBytes(sharding ? sharding.getLocalType(type, mesh.mesh) : type);
}

SmallVector<Value> heddle::getInputs(Operation *op) {
  llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), inputs);
  return inputs.takeVector();
}
