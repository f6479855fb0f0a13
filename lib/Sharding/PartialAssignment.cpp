//===- PartialAssignment.cpp - Statements before propagation --------------===//

#include "heddle/Sharding/PartialAssignment.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/Pins.h"

using namespace mlir;
using namespace heddle;

/// Reads `heddle.factors`. A factor without an entry is open.
static LogicalResult readFactors(Operation *op, MeshRef mesh,
                                 PartialAssignment &assignment) {
  auto attr = op->getAttrOfType<FactorShardingAttr>(kFactorsAttrName);
  if (!attr || !hasFactors(op))
    return success();
  ShardingRule rule = getRule(op);
  FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh.mesh);
  if (failed(axes))
    return failure();
  PartialAssignment::Factors &factors = assignment.operators[op];
  factors.axes.resize(rule.factors.size());
  for (FactorAxesAttr entry : attr.getFactors())
    if (auto factor = findFactor(rule, entry.getFactor().getValue()))
      factors.axes[*factor] = (*axes)[*factor];
  factors.priority = getPriority(op->getDiscardableAttrDictionary());
  return success();
}

static LogicalResult readOp(Operation *op, MeshRef mesh,
                            PartialAssignment &assignment) {
  llvm::MapVector<Value, ShardingAttr> pins;
  if (failed(readFactors(op, mesh, assignment)) || failed(readPins(op, pins)))
    return failure();
  for (auto &[value, sharding] : pins)
    assignment.pins[value] = {sharding,
                              getPriority(op->getDiscardableAttrDictionary())};
  return success();
}

/// Returns the sharding that an argument or result has by its attributes.
static std::optional<PartialAssignment::Statement>
readBoundary(DictionaryAttr attributes) {
  auto sharding = attributes ? attributes.getAs<ShardingAttr>(kShardingAttrName)
                             : ShardingAttr();
  if (!sharding)
    return std::nullopt;
  return PartialAssignment::Statement{sharding, getPriority(attributes)};
}

static LogicalResult readFunction(func::FuncOp function, MeshRef mesh,
                                  PartialAssignment &assignment) {
  if (function.isExternal())
    return success();
  LogicalResult status = success();
  forEachOp(function, [&](Operation *op) {
    if (succeeded(status))
      status = readOp(op, mesh, assignment);
  });
  for (BlockArgument argument : function.getArguments())
    if (auto given =
            readBoundary(function.getArgAttrDict(argument.getArgNumber())))
      assignment.arguments[argument] = *given;
  for (OpOperand &result :
       function.getBody().front().getTerminator()->getOpOperands())
    if (auto given =
            readBoundary(function.getResultAttrDict(result.getOperandNumber())))
      assignment.results[&result] = *given;
  return status;
}

FailureOr<PartialAssignment> heddle::readAssignment(ModuleOp module,
                                                    MeshRef mesh) {
  PartialAssignment assignment;
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(readFunction(function, mesh, assignment)))
      return failure();
  for (auto variable : module.getOps<VariableOp>()) {
    if (ShardingAttr storage = variable.getStorageAttr())
      assignment.storage[variable.getSymNameAttr()] = storage;
    if (auto axes = variable->getAttrOfType<ShardingAttr>(kStorageAxesAttrName))
      assignment.storageAxes[variable.getSymNameAttr()] = getDimensions(axes);
  }
  if (auto reduction = module->getAttrOfType<GradientReductionAttr>(
          kReduceGradientsAttrName))
    assignment.gradientReduction = reduction.getValue();
  return assignment;
}
