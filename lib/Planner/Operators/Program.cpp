//===- Program.cpp - A global program as a planner sees it ----------------===//

#include "Program.h"
#include "Liveness.h"
#include "Ties.h"
#include "Weights.h"
#include "heddle/Sharding/Boundaries.h"
#include "heddle/Sharding/ControlFlow.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace heddle;

namespace heddle {

class ProgramReader {
public:
  ProgramReader(ModuleOp module, const ProgramOptions &options)
      : module(module), options(options),
        stepWeights(module, options.microBatches) {}

  FailureOr<Program> read();

private:
  LogicalResult collectOps();
  void makeClasses();
  void addVariables();
  void uniteNames();
  void uniteUpdates();
  void makeGroups();
  LogicalResult addCells();
  void addCell(ArrayRef<Value> values, ArrayRef<OpOperand *> sources,
               CellClass cell, double weight);
  void addCalledFunction(func::FuncOp function, ArrayRef<func::CallOp> calls);
  LogicalResult addFlows();
  void addFlowsOf(Value value);
  Place getTarget(OpOperand &use);
  /// Returns a text that two uses share if they need a value in one layout.
  std::string getNeed(Place from, Place to, OpOperand &use);

  ModuleOp module;
  const ProgramOptions &options;
  StepWeights stepWeights;
  Program program;
  SmallVector<Operation *> ops;
  SmallVector<double> weights; ///< by op
  DenseMap<Operation *, unsigned> indexOf, classOf;
  Ties ties;
  /// Over the indices of classes.
  llvm::EquivalenceClasses<unsigned> groups;
  llvm::DenseSet<unsigned> updates; ///< classes
  DenseMap<StringAttr, unsigned> variableOf;
  DenseMap<Value, Place> placeOf;
  DenseMap<OpOperand *, Place> targetOf;
  DenseMap<OpOperand *, double> targetWeight;
  std::map<std::tuple<Place, Place, std::string>, unsigned> flowOf;
};

} // namespace heddle

//===----------------------------------------------------------------------===//
// Ops and classes
//===----------------------------------------------------------------------===//

/// Returns whether every use gets a copy of its own, so that the value lies as
/// the use needs it.
static bool isFree(Operation *op) {
  return getOpName(op).empty() && isMemoryEffectFree(op) &&
         op->getNumRegions() == 0 &&
         llvm::none_of(op->getOperandTypes(),
                       [](Type type) { return isa<TensorType>(type); });
}

LogicalResult ProgramReader::collectOps() {
  if (failed(verifyNoRecursion(module)))
    return failure();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || stepWeights.get(function) == 0)
      continue;
    LogicalResult status = success();
    forEachOp(function, [&](Operation *op) {
      if (isControlFlow(op) || !hasFactors(op) || isFree(op))
        return;
      if (!isa<ShardingRuleOpInterface>(op) && op->getNumRegions() != 0)
        status = op->emitOpError()
                 << "cannot be planned: it has regions and no sharding rule";
      indexOf[op] = ops.size();
      ops.push_back(op);
      weights.push_back(stepWeights.get(op));
    });
    if (failed(status))
      return failure();
  }
  return success();
}

void ProgramReader::makeClasses() {
  ties = findTies(module, ops, options.unitesLayers);
  DenseMap<unsigned, unsigned> classOfLeader;
  for (auto [i, op] : llvm::enumerate(ops)) {
    unsigned leader = ties.ops.getLeaderValue(i);
    auto [known, isNew] = classOfLeader.try_emplace(leader, program.ops.size());
    if (isNew) {
      program.ops.emplace_back();
      OpClass &made = program.ops.back();
      made.rule = getRule(op);
      made.isFusable = isFusableOp(op, made.rule);
      made.live.assign(op->getNumResults(), 0);
      groups.insert(known->second);
    }
    program.ops[known->second].ops.push_back(op);
    program.ops[known->second].weight += weights[i];
    classOf[op] = known->second;
  }
  auto isFusable = [&](Operation *op) {
    auto found = classOf.find(op);
    return found != classOf.end() && program.ops[found->second].isFusable;
  };
  for (OpClass &made : program.ops)
    findKernelBorders(made, isFusable, indexOf);
  for (auto &[op, result, count] : findLiveAtPeak(ops, isFusable))
    program.ops[classOf[op]].live[result] += count;
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

/// Unites tied variables in classes.
void ProgramReader::addVariables() {
  DenseMap<unsigned, unsigned> classOfLeader;
  unsigned number = 0;
  for (VariableOp variable : module.getOps<VariableOp>()) {
    auto [known, isNew] = classOfLeader.try_emplace(
        ties.variables.getLeaderValue(number++), program.variables.size());
    if (isNew)
      program.variables.emplace_back();
    program.variables[known->second].variables.push_back(variable);
    variableOf[variable.getSymNameAttr()] = known->second;
  }
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Unites classes that share a factor of one name: a plan gives both the same
/// axes.
void ProgramReader::uniteNames() {
  std::map<std::pair<std::string, std::string>, unsigned> first;
  for (auto [i, made] : llvm::enumerate(program.ops))
    for (Operation *op : made.ops) {
      StringRef name = getOpName(op);
      if (name.empty())
        continue;
      for (const Factor &factor : made.rule.factors)
        if (!factor.name.empty())
          groups.unionSets(
              i, first.try_emplace({name.str(), factor.name}, i).first->second);
    }
}

/// Unites the ops that update one variable. They lie as its state does.
void ProgramReader::uniteUpdates() {
  for (auto i = ties.updates.begin(); i != ties.updates.end(); ++i) {
    if (!i->isLeader())
      continue;
    unsigned first = classOf[ops[*ties.updates.member_begin(i)]];
    for (auto member = ties.updates.member_begin(i);
         member != ties.updates.member_end(); ++member) {
      unsigned made = classOf[ops[*member]];
      updates.insert(made);
      groups.unionSets(first, made);
    }
  }
}

void ProgramReader::makeGroups() {
  DenseMap<unsigned, unsigned> groupOfLeader;
  SmallVector<std::map<std::string, unsigned>> keyOf;
  for (auto [i, made] : llvm::enumerate(program.ops)) {
    auto [known, isNew] = groupOfLeader.try_emplace(groups.getLeaderValue(i),
                                                    program.groups.size());
    if (isNew) {
      program.groups.emplace_back();
      keyOf.emplace_back();
    }
    made.group = known->second;
    Group &group = program.groups[made.group];
    group.classes.push_back(i);
    group.isUpdate |= updates.contains(i);
    bool isNamed = false;
    for (auto [f, factor] : llvm::enumerate(made.rule.factors)) {
      // A key that no other class has, unless the factor has a name.
      std::string key = group.isUpdate
                            ? "#" + std::to_string(f)
                            : "#" + std::to_string(i) + "." + std::to_string(f);
      bool isSayable = !factor.name.empty() && !getOpName(made.op()).empty();
      if (isSayable)
        key = factor.name;
      isNamed |= isSayable;
      auto [entry, isFirst] =
          keyOf[made.group].try_emplace(key, group.keys.size());
      if (isFirst)
        group.keys.push_back(isSayable ? factor.name : "");
      made.keys.push_back(entry->second);
    }
    if (isNamed)
      for (Operation *op : made.ops)
        if (!llvm::is_contained(group.names, getOpName(op)))
          group.names.push_back(getOpName(op).str());
  }
}

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
  // A parameter is gathered again for each op of the model.
  if (from.kind == Place::Variable && !program.groups[user.group].isUpdate)
    need += ":" + std::to_string(to.index);
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
  std::map<std::string, bool> seen;
  for (OpOperand &use : value.getUses()) {
    Place to = getTarget(use);
    if (to.kind == Place::None)
      continue;
    std::string need = getNeed(from, to, use);
    if (!seen.try_emplace(need, true).second)
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
        // A tensor that a region reads at any place is needed whole.
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

FailureOr<Program> ProgramReader::read() {
  if (failed(collectOps()))
    return failure();
  makeClasses();
  addVariables();
  uniteNames();
  uniteUpdates();
  makeGroups();
  if (failed(addCells()) || failed(addFlows()))
    return failure();
  return std::move(program);
}

FailureOr<Program> Program::create(ModuleOp module,
                                   const ProgramOptions &options) {
  return ProgramReader(module, options).read();
}
