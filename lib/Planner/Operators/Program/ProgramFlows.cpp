//===- ProgramFlows.cpp - Flows of values ---------------------------------===//

#include "ProgramReader.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace heddle;

/// A parameter stays gathered until its next use if the parameters read in
/// between have at most its bytes divided by this.
static constexpr int64_t kLittle = 8;

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

void ProgramReader::addCell(ArrayRef<Value> values,
                            ArrayRef<OpOperand *> sources, CellClass cell,
                            double weight) {
  unsigned index = program.cells.size();
  for (Value value : values)
    placeOf[value] = {Place::Cell, index, 0};
  for (OpOperand *source : sources) {
    targetOf[source] = {Place::Cell, index, 0};
    targetWeight[source] = weight;
  }
  program.cells.push_back(cell);
}

/// The operands of all calls flow into the function's arguments. The operands
/// of its return flow into the results of all calls.
void ProgramReader::addCalledFunction(func::FuncOp function,
                                      ArrayRef<func::CallOp> calls) {
  Block &body = function.getBody().front();
  double weight = stepWeights.get(function) / double(calls.size());
  for (BlockArgument argument : body.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      continue;
    SmallVector<OpOperand *> sources;
    for (func::CallOp call : calls)
      sources.push_back(&call->getOpOperand(argument.getArgNumber()));
    addCell({argument}, sources, {type, {}, false}, weight);
  }
  for (OpOperand &returned : body.getTerminator()->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(returned.get().getType());
    if (!type)
      continue;
    SmallVector<Value> values;
    for (func::CallOp call : calls)
      values.push_back(call.getResult(returned.getOperandNumber()));
    addCell(values, {&returned}, {type, {}, false}, stepWeights.get(function));
  }
}

LogicalResult ProgramReader::addCells() {
  llvm::MapVector<Operation *, SmallVector<func::CallOp>> callsOf;
  LogicalResult status = success();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || stepWeights.get(function) == 0)
      continue;
    forEachOp(function, [&](Operation *op) {
      if (failed(status))
        return;
      if (auto call = dyn_cast<func::CallOp>(op)) {
        FailureOr<func::FuncOp> callee = getCallee(call);
        status = success(succeeded(callee));
        if (succeeded(callee))
          callsOf[*callee].push_back(call);
      } else if (isControlFlow(op)) {
        FailureOr<SmallVector<CarriedValue>> carried = getCarriedValues(op);
        status = success(succeeded(carried));
        if (succeeded(carried))
          for (const CarriedValue &value : *carried)
            addCell(value.values, value.sources, {value.getType(), {}, false},
                    stepWeights.get(op));
      }
    });
  }
  if (failed(status))
    return failure();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || stepWeights.get(function) == 0)
      continue;
    if (auto calls = callsOf.find(function); calls != callsOf.end()) {
      addCalledFunction(function, calls->second);
      continue;
    }
    Block &body = function.getBody().front();
    for (BlockArgument argument : body.getArguments())
      if (auto type = dyn_cast<RankedTensorType>(argument.getType()))
        addCell({argument}, {},
                {type,
                 function.getArgAttrOfType<ShardingAttr>(
                     argument.getArgNumber(), kShardingAttrName),
                 true},
                0);
    for (OpOperand &returned : body.getTerminator()->getOpOperands())
      if (auto type = dyn_cast<RankedTensorType>(returned.get().getType()))
        addCell({}, {&returned},
                {type,
                 function.getResultAttrOfType<ShardingAttr>(
                     returned.getOperandNumber(), kShardingAttrName),
                 false},
                stepWeights.get(function));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Flows
//===----------------------------------------------------------------------===//

Place ProgramReader::getTarget(OpOperand &use) {
  Operation *op = use.getOwner();
  if (auto known = targetOf.find(&use); known != targetOf.end())
    return known->second;
  if (auto store = dyn_cast<StoreOp>(op)) {
    auto variable = variableOf.find(getAccessedVariable(store));
    if (variable != variableOf.end())
      return {Place::Variable, variable->second, 0};
  }
  if (auto found = classOf.find(op); found != classOf.end())
    return {Place::Op, found->second, use.getOperandNumber()};
  return {};
}

std::string ProgramReader::getNeed(Place from, Place to, OpOperand &use) {
  if (to.kind != Place::Op)
    return std::to_string(to.kind) + ":" + std::to_string(to.index);
  const OpClass &user = program.ops[to.index];
  std::string need = "g" + std::to_string(user.group);
  for (const DimensionFactors &dim : user.rule.operands[to.number]) {
    need += ",";
    for (unsigned factor : dim)
      need += " " + std::to_string(user.keys[factor]);
  }
  // An accumulator may be a partial sum, unlike other operands.
  for (const LinearGroup &group : user.rule.linear)
    if (llvm::is_contained(group.operands, to.number) &&
        group.operands.size() > 1)
      need += ";" + std::to_string(to.index) + "." + std::to_string(to.number);
  return need;
}

/// Returns whether a parameter that is gathered for the op at `first` is
/// gathered again for the op at `second`. As in insert-reshards (which treats
/// casts of parameters alike), it is not kept if the ops in between read other
/// parameters of more than a small fraction of its bytes.
bool ProgramReader::isGatheredAgain(RankedTensorType type, unsigned first,
                                    unsigned second) {
  if (bytesRead.empty()) {
    bytesRead.push_back(0);
    for (Operation *op : ops) {
      int64_t bytes = 0;
      for (Value operand : op->getOperands())
        if (operand.getDefiningOp<LoadOp>())
          bytes += getBytes(operand.getType());
      bytesRead.push_back(bytesRead.back() + bytes);
    }
  }
  return bytesRead[second] - bytesRead[first + 1] > getBytes(type) / kLittle;
}

void ProgramReader::addFlowsOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return;
  Place from;
  double weight = 0;
  if (auto load = value.getDefiningOp<LoadOp>()) {
    auto variable = variableOf.find(getAccessedVariable(load));
    if (variable == variableOf.end())
      return;
    from = {Place::Variable, variable->second, 0};
    weight = stepWeights.get(load);
  } else if (auto known = placeOf.find(value); known != placeOf.end()) {
    from = known->second;
  } else if (Operation *op = value.getDefiningOp();
             op && classOf.contains(op)) {
    from = {Place::Op, classOf[op], cast<OpResult>(value).getResultNumber()};
    weight = weights[indexOf[op]];
  }
  if (from.kind == Place::None)
    return;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    uses.push_back(&use);
  llvm::sort(uses, [&](OpOperand *a, OpOperand *b) {
    return std::pair(indexOf.lookup(a->getOwner()), a->getOperandNumber()) <
           std::pair(indexOf.lookup(b->getOwner()), b->getOperandNumber());
  });
  std::map<std::string, unsigned> seen; // the last op with the same need
  for (OpOperand *operand : uses) {
    OpOperand &use = *operand;
    Place to = getTarget(use);
    if (to.kind == Place::None)
      continue;
    std::string need = getNeed(from, to, use);
    unsigned index = indexOf.lookup(use.getOwner());
    auto [last, isFirst] = seen.try_emplace(need, index);
    bool isAgain = !isFirst && from.kind == Place::Variable &&
                   isGatheredAgain(type, last->second, index) &&
                   to.kind == Place::Op &&
                   !program.groups[program.ops[to.index].group].isUpdate;
    last->second = index;
    if (!isFirst && !isAgain)
      continue;
    double times = weight;
    if (auto known = targetWeight.find(&use); known != targetWeight.end())
      times = known->second;
    else if (times == 0)
      times = indexOf.contains(use.getOwner())
                  ? weights[indexOf[use.getOwner()]]
                  : 1;
    auto [entry, isNew] =
        flowOf.try_emplace({from, to, need}, program.flows.size());
    if (isNew)
      program.flows.push_back({from, to, type, 0});
    program.flows[entry->second].weight += times;
  }
}

LogicalResult ProgramReader::addFlows() {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || stepWeights.get(function) == 0)
      continue;
    for (BlockArgument argument : function.getArguments())
      addFlowsOf(argument);
    forEachOp(function, [&](Operation *op) {
      for (Value result : op->getResults())
        addFlowsOf(result);
      if (!isControlFlow(op)) {
        // A tensor that a region reads at arbitrary positions is needed whole.
        for (Region &region : op->getRegions())
          visitUsedValuesDefinedAbove(region, [&](OpOperand *operand) {
            auto type = dyn_cast<RankedTensorType>(operand->get().getType());
            if (!type || targetOf.contains(operand))
              return;
            auto whole = ShardingAttr::getReplicated(
                FlatSymbolRefAttr::get(module.getContext(), "mesh"),
                type.getRank());
            addCell({}, {operand}, {type, whole, false}, stepWeights.get(op));
          });
        return;
      }
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            addFlowsOf(argument);
    });
  }
  return success();
}
