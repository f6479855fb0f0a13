//===- ModuleGraph.cpp - A module as a propagation problem ----------------===//

#include "ModuleGraph.h"

using namespace mlir;
using namespace heddle;

StringAttr heddle::getVariableOf(Operation *access) {
  if (auto load = dyn_cast<LoadOp>(access))
    return load.getVariableAttr().getAttr();
  return cast<StoreOp>(access).getVariableAttr().getAttr();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Checks a rule's indices, because rules of foreign dialects may be wrong.
static LogicalResult verifyRule(Operation *op, const ShardingRule &rule) {
  auto verify = [&](ArrayRef<TensorFactors> tensors,
                    const Twine &what) -> LogicalResult {
    for (auto [i, dims] : llvm::enumerate(tensors))
      for (auto [dim, factors] : llvm::enumerate(dims))
        for (unsigned factor : factors)
          if (factor >= rule.factors.size())
            return op->emitOpError()
                   << "has a sharding rule of " << rule.factors.size()
                   << " factors, but dimension " << dim << " of " << what << " "
                   << i << " is run over by factor " << factor
                   << "; mend getShardingRule";
    return success();
  };
  if (failed(verify(rule.operands, "operand")) ||
      failed(verify(rule.results, "result")))
    return failure();
  for (const LinearGroup &group : rule.linear)
    for (unsigned operand : group.operands)
      if (operand >= op->getNumOperands())
        return op->emitOpError()
               << "has a sharding rule that is linear in operand " << operand
               << ", expected one of " << op->getNumOperands()
               << "; mend getShardingRule";
  return success();
}

/// Refuses ops that cannot be partitioned.
static LogicalResult verifyIsPartitionable(Operation *op) {
  if (!isa<ShardingRuleOpInterface>(op) && op->getNumRegions() != 0)
    return op->emitOpError()
           << "cannot be partitioned: it has regions and no sharding rule";
  if (isa<CallOpInterface>(op) && hasTensors(op))
    return op->emitOpError()
           << "cannot be partitioned: only func.call of functions in the "
              "module is understood, got '"
           << op->getName() << "'";
  return success();
}

/// Checks the axes that the program gives to an op's factors.
static LogicalResult verifyGivenFactors(Operation *op, const ShardingRule &rule,
                                        const FactorAxes &axes, MeshRef mesh) {
  if (failed(verifyFactorAxes(op, rule, axes, mesh.mesh)))
    return failure();
  if (!isRepresentable(rule, axes, mesh.mesh))
    return op->emitOpError() << "expected factors of merged dimensions to "
                                "divide, and minor ones to be whole, got "
                             << makeFactorsAttr(op->getContext(), rule, axes);
  return success();
}

/// Returns whether the op is one of the forward or backward pass. The
/// assignment of such an op follows from the plan's "operators" alone.
static bool isModelOp(Operation *op) { return op->hasTrait<NetworkOp>(); }

LogicalResult ModuleGraph::addAccess(Operation *access) {
  Value value =
      isa<LoadOp>(access) ? access->getResult(0) : access->getOperand(0);
  auto variable = variables.find(getVariableOf(access));
  if (variable == variables.end())
    return access->emitOpError() << "expected a variable of this module";
  unsigned cell = *graph.getCell(value);
  graph.link(cell, variable->second.cell);
  accesses.push_back({access, cell});
  return success();
}

LogicalResult ModuleGraph::addOp(Operation *op,
                                 const PartialAssignment &given) {
  if (isa<LoadOp, StoreOp>(op))
    return addAccess(op);
  if (isControlFlow(op) || isa<func::CallOp>(op))
    return success(); // see addControlFlow and addCalls
  if (failed(verifyIsPartitionable(op)))
    return failure();
  if (!hasFactors(op))
    return success();
  ShardingRule rule = getRule(op);
  if (failed(verifyRule(op, rule)))
    return failure();
  FactorAxes axes(rule.factors.size());
  SmallVector<bool> pinned(rule.factors.size(), false);
  int64_t priority = 0;
  auto stated = given.operators.find(op);
  if (stated != given.operators.end()) {
    auto &factors = stated->second.axes;
    if (factors.size() != axes.size())
      return op->emitOpError() << "expected axes for its " << axes.size()
                               << " factors, got them for " << factors.size();
    for (auto [i, list] : llvm::enumerate(factors)) {
      axes[i] = list.value_or(Axes());
      pinned[i] = list.has_value();
    }
    priority = stated->second.priority;
    if (failed(verifyGivenFactors(op, rule, axes, mesh)))
      return failure();
  }
  graph.addNode(op, std::move(rule), std::move(axes), pinned,
                getFactorLevel(priority));
  isOfModel.push_back(stated != given.operators.end() || isModelOp(op));
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow and calls
//===----------------------------------------------------------------------===//

LogicalResult ModuleGraph::addControlFlow(Operation *op) {
  FailureOr<SmallVector<CarriedValue>> values = getCarriedValues(op);
  if (failed(values))
    return failure();
  for (CarriedValue &value : *values)
    controlFlow[op].push_back({value, graph.addSharedCell(value.values)});
  return success();
}

/// Adds the flows of a function that is called. Each argument gets a cell, into
/// which the operands of all calls flow. For each result, the results of all
/// calls share one cell, into which the returned operand flows.
void ModuleGraph::addCallsOf(func::FuncOp function,
                             ArrayRef<func::CallOp> calls) {
  Block &body = function.getBody().front();
  SmallVector<Carried, 2> carried;
  for (BlockArgument argument : body.getArguments()) {
    if (!isa<RankedTensorType>(argument.getType()))
      continue;
    CarriedValue value{{argument}, {}};
    for (func::CallOp call : calls)
      value.sources.push_back(&call->getOpOperand(argument.getArgNumber()));
    carried.push_back({value, graph.addSharedCell(value.values)});
  }
  auto &cells = resultCells[function];
  for (OpOperand &returned : body.getTerminator()->getOpOperands()) {
    cells.emplace_back();
    if (!isa<RankedTensorType>(returned.get().getType()))
      continue;
    CarriedValue value{{}, {&returned}};
    for (func::CallOp call : calls)
      value.values.push_back(call.getResult(returned.getOperandNumber()));
    cells.back() = graph.addSharedCell(value.values);
    carried.push_back({value, *cells.back()});
  }
  controlFlow[function] = std::move(carried);
}

LogicalResult ModuleGraph::addCalls(ModuleOp module) {
  llvm::MapVector<Operation *, SmallVector<func::CallOp>> callsOf;
  LogicalResult status = success();
  for (auto function : module.getOps<func::FuncOp>())
    forEachOp(function, [&](Operation *op) {
      auto call = dyn_cast<func::CallOp>(op);
      if (!call || failed(status))
        return;
      FailureOr<func::FuncOp> callee = getCallee(call);
      if (failed(callee))
        status = failure();
      else
        callsOf[*callee].push_back(call);
    });
  if (failed(status))
    return failure();
  for (auto &[function, calls] : callsOf)
    addCallsOf(cast<func::FuncOp>(function), calls);
  return success();
}

void ModuleGraph::addFlows(const Carried &carried) {
  for (OpOperand *source : carried.value.sources) {
    bool atEnd = source->getOwner()->hasTrait<OpTrait::IsTerminator>();
    graph.addFlow(*graph.getCell(source->get()), carried.cell, atEnd);
    for (Value value : carried.value.values)
      sourcesOf[value].push_back(source->get());
  }
}

std::optional<unsigned> ModuleGraph::getResultCell(OpOperand &returned) {
  auto shared = resultCells.find(returned.getOwner()->getParentOp());
  return shared == resultCells.end()
             ? graph.getCell(returned.get())
             : shared->second[returned.getOperandNumber()];
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

LogicalResult ModuleGraph::addFunction(func::FuncOp function,
                                       const PartialAssignment &given) {
  if (function.isExternal())
    return success();
  // Shared cells are added first, before any op mentions one of their values.
  LogicalResult status = success();
  forEachOp(function, [&](Operation *op) {
    if (succeeded(status) && isControlFlow(op))
      status = addControlFlow(op);
  });
  forEachOp(function, [&](Operation *op) {
    if (succeeded(status))
      status = addOp(op, given);
  });
  return status;
}

LogicalResult ModuleGraph::build(ModuleOp module,
                                 const PartialAssignment &given) {
  if (failed(verifyNoRecursion(module)) || failed(addCalls(module)))
    return failure();
  for (VariableOp variable : module.getOps<VariableOp>())
    variables.insert({variable.getSymNameAttr(),
                      {variable, graph.addCell(variable.getTensorType())}});
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(addFunction(function, given)))
      return failure();
  for (auto &[op, carried] : controlFlow)
    for (const Carried &entry : carried)
      addFlows(entry);
  for (auto &[op, factors] : given.operators)
    if (!graph.findNode(op))
      return op->emitOpError()
             << "has no factors in this module: expected no axes for them";
  return success();
}

void ModuleGraph::freezeModel() {
  SmallVector<Value> needed;
  DenseSet<Value> seen;
  auto need = [&](ValueRange values) {
    for (Value value : values)
      if (seen.insert(value).second)
        needed.push_back(value);
  };
  for (unsigned i = 0; i < graph.getNumNodes(); ++i)
    if (isOfModel[i])
      need(graph.getOp(i)->getOperands());
  while (!needed.empty()) {
    Value value = needed.pop_back_val();
    if (auto sources = sourcesOf.find(value); sources != sourcesOf.end())
      need(SmallVector<Value>(sources->second));
    std::optional<unsigned> node = graph.findNode(value.getDefiningOp());
    if (!node)
      continue;
    isOfModel[*node] = true;
    need(value.getDefiningOp()->getOperands());
  }
  for (unsigned i = 0; i < graph.getNumNodes(); ++i)
    if (isOfModel[i])
      graph.freezeNode(i);
}
