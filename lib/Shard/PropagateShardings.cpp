//===- PropagateShardings.cpp - Completes the assignment ------------------===//

#include "ControlFlow.h"
#include "Propagation.h"
#include "Slices.h"
#include "heddle/Shard/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_PROPAGATESHARDINGSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// One op for each use, so that unrelated uses do not have to agree.
static void repeatFreeTensors(ModuleOp module) {
  SmallVector<Operation *> shared;
  module.walk([&](Operation *op) {
    if (isFreeTensor(op) && !op->use_empty() && !op->hasOneUse())
      shared.push_back(op);
  });
  for (Operation *op : shared) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getResult(0).getUses())
      uses.push_back(&use);
    for (OpOperand *use : llvm::drop_begin(uses))
      use->set(OpBuilder(op).clone(*op)->getResult(0));
  }
}

/// An op of the forward or backward pass. Its assignment follows from the
/// plan's "operators" alone.
static bool isModelOp(Operation *op) {
  if (op->hasAttr(kFactorsAttrName))
    return true;
  return isa<HeddleDialect>(op->getDialect()) &&
         !isa<LoadOp, StoreOp, ReduceOp, heddle::BroadcastOp, StackOp,
              UnstackOp>(op);
}

namespace {

class ModulePropagation {
public:
  ModulePropagation(ModuleOp module, MeshRef mesh)
      : module(module), mesh(mesh), graph(mesh) {}

  LogicalResult run();

private:
  LogicalResult build();
  LogicalResult addFunction(func::FuncOp function);
  LogicalResult addOp(Operation *op);
  LogicalResult addControlFlow(Operation *op);
  LogicalResult addCalls();
  void addCarried(const CarriedValue &carried, unsigned cell);
  void growModel();
  LogicalResult seedFromStorage();
  LogicalResult seedFromFunctions();
  std::optional<unsigned> resultCell(func::FuncOp function,
                                     OpOperand &returned);
  LogicalResult seedCell(Location loc, unsigned cell, ShardingAttr sharding);
  void write();
  void writeFunction(func::FuncOp function);

  /// Values that take a cell together, and what flows into them.
  struct Carried {
    CarriedValue value;
    unsigned cell;
  };

  ModuleOp module;
  MeshRef mesh;
  Propagation graph;
  llvm::MapVector<StringAttr, std::pair<VariableOp, unsigned>> variables;
  DenseMap<StringAttr, DimensionAxes> storage;
  /// Loads and stores with the cell of their value.
  SmallVector<std::pair<Operation *, unsigned>> accesses;
  SmallVector<bool> isOfModel; ///< by node
  llvm::MapVector<Operation *, SmallVector<Carried, 2>> controlFlow;
  /// Of functions that are called.
  DenseMap<func::FuncOp, SmallVector<std::optional<unsigned>>> resultCells;
  /// Where a value comes from that no node makes.
  DenseMap<Value, SmallVector<Value>> sourcesOf;
};

} // namespace

static StringAttr variableOf(Operation *access) {
  if (auto load = dyn_cast<LoadOp>(access))
    return load.getVariableAttr().getAttr();
  return cast<StoreOp>(access).getVariableAttr().getAttr();
}

LogicalResult ModulePropagation::addOp(Operation *op) {
  if (isa<LoadOp, StoreOp>(op)) {
    Value value = isa<LoadOp>(op) ? op->getResult(0) : op->getOperand(0);
    auto variable = variables.find(variableOf(op));
    if (variable == variables.end())
      return op->emitOpError() << "expected a variable of this module";
    unsigned cell = *graph.getCell(value);
    graph.link(cell, variable->second.second);
    accesses.emplace_back(op, cell);
    return success();
  }
  if (isControlFlow(op) || isa<func::CallOp>(op))
    return success(); // see addControlFlow and addCalls
  bool hasTensors = llvm::any_of(
      llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()),
                               SmallVector<Type>(op->getResultTypes())),
      [](Type type) { return isa<RankedTensorType>(type); });
  if (!isa<ShardingRuleOpInterface>(op) && op->getNumRegions() != 0)
    return op->emitOpError()
           << "cannot be partitioned: it has regions and no sharding rule";
  if (isa<CallOpInterface>(op) && hasTensors)
    return op->emitOpError()
           << "cannot be partitioned: only func.call of functions in the "
              "module is understood, got '"
           << op->getName() << "'";
  if (!hasTensors || op->hasTrait<OpTrait::IsTerminator>())
    return success();
  ShardingRule rule = getRule(op);
  FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh.mesh);
  if (failed(axes))
    return failure();
  if (!isRepresentable(rule, *axes, mesh.mesh))
    return op->emitOpError() << "expected factors of merged dimensions to "
                                "divide, and minor ones to be whole, got "
                             << op->getAttr(kFactorsAttrName);
  SmallVector<bool> pinned(rule.factors.size(), false);
  if (auto attr = op->getAttrOfType<FactorShardingAttr>(kFactorsAttrName))
    for (FactorAxesAttr entry : attr.getFactors())
      for (unsigned i = 0; i < rule.factors.size(); ++i)
        if (getFactorKey(rule, i) == entry.getFactor().getValue())
          pinned[i] = true;
  graph.addNode(op, std::move(rule), std::move(*axes), pinned);
  isOfModel.push_back(isModelOp(op));
  return success();
}

LogicalResult ModulePropagation::addFunction(func::FuncOp function) {
  if (function.isExternal())
    return success();
  // Cells that several values share come before any other mention of them.
  LogicalResult status = success();
  forEachOp(function, [&](Operation *op) {
    if (succeeded(status) && isControlFlow(op))
      status = addControlFlow(op);
  });
  forEachOp(function, [&](Operation *op) {
    if (succeeded(status))
      status = addOp(op);
  });
  return status;
}

/// The cell of `carried.values` with what flows into them.
void ModulePropagation::addCarried(const CarriedValue &carried, unsigned cell) {
  for (OpOperand *source : carried.sources) {
    bool atEnd = source->getOwner()->hasTrait<OpTrait::IsTerminator>();
    graph.addFlow(*graph.getCell(source->get()), cell, atEnd);
    for (Value value : carried.values)
      sourcesOf[value].push_back(source->get());
  }
}

LogicalResult ModulePropagation::addControlFlow(Operation *op) {
  FailureOr<SmallVector<CarriedValue>> values = getCarriedValues(op);
  if (failed(values))
    return failure();
  for (CarriedValue &value : *values)
    controlFlow[op].push_back({value, graph.addSharedCell(value.values)});
  return success();
}

/// Arguments hear the operands of all calls, and the results of all calls are
/// one cell that hears what the function returns.
LogicalResult ModulePropagation::addCalls() {
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
  for (auto &[op, calls] : callsOf) {
    auto function = cast<func::FuncOp>(op);
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
    controlFlow[op] = std::move(carried);
  }
  return success();
}

LogicalResult ModulePropagation::build() {
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && !llvm::hasSingleElement(function.getBody()))
      return function.emitOpError()
             << "cannot be partitioned: expected one block, got "
             << function.getBody().getBlocks().size()
             << "; turn its branches into scf ops first (--lift-cf-to-scf)";
  if (failed(verifyNoRecursion(module)) || failed(addCalls()))
    return failure();
  for (VariableOp variable : module.getOps<VariableOp>())
    variables.insert({variable.getSymNameAttr(),
                      {variable, graph.addCell(variable.getTensorType())}});
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(addFunction(function)))
      return failure();
  for (auto &[op, carried] : controlFlow)
    for (const Carried &entry : carried)
      addCarried(entry.value, entry.cell);
  return success();
}

/// What comes before an op of the model is the model's: it is not recomputed,
/// nor split, for the sake of storage.
void ModulePropagation::growModel() {
  DenseMap<Operation *, unsigned> nodeOf;
  for (unsigned i = 0; i < graph.getNumNodes(); ++i)
    nodeOf[graph.getOp(i)] = i;
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
    auto node = nodeOf.find(value.getDefiningOp());
    if (node == nodeOf.end())
      continue;
    isOfModel[node->second] = true;
    need(value.getDefiningOp()->getOperands());
  }
}

LogicalResult ModulePropagation::seedFromStorage() {
  // Each variable is stored as its uses want, plus the plan's own axes.
  for (auto &[name, entry] : variables) {
    auto [variable, cell] = entry;
    if (ShardingAttr given = variable.getStorageAttr()) {
      storage[name] = getDimensions(given);
      continue;
    }
    if (auto extra =
            variable->getAttrOfType<ShardingAttr>(kStorageAxesAttrName)) {
      if (extra.getRank() != variable.getTensorType().getRank())
        return variable.emitOpError()
               << "expected " << kStorageAxesAttrName << " of "
               << variable.getTensorType().getRank() << " dimensions";
      for (auto [dim, axes] : llvm::enumerate(getDimensions(extra)))
        graph.appendAxes(cell, dim, axes);
    }
    storage[name] = graph.getAxes(cell);
  }
  graph.clearLinks();
  growModel();
  for (unsigned i = 0; i < graph.getNumNodes(); ++i)
    if (isOfModel[i])
      graph.freezeNode(i);
  // A loaded parameter serves the model and the update, each in its way; other
  // values that are loaded or stored serve the update alone.
  for (auto [op, cell] : accesses) {
    VariableOp variable = variables.find(variableOf(op))->second.first;
    if (isa<LoadOp>(op) && variable.getRole() == VariableRole::Parameter)
      continue;
    for (auto [dim, axes] : llvm::enumerate(storage[variableOf(op)]))
      graph.appendAxes(cell, dim, axes);
  }
  graph.run();
  return success();
}

/// Of what a function returns: its callers' cell if it has callers.
std::optional<unsigned> ModulePropagation::resultCell(func::FuncOp function,
                                                      OpOperand &returned) {
  auto shared = resultCells.find(function);
  return shared == resultCells.end()
             ? graph.getCell(returned.get())
             : shared->second[returned.getOperandNumber()];
}

LogicalResult ModulePropagation::seedCell(Location loc, unsigned cell,
                                          ShardingAttr sharding) {
  DimensionAxes dims = getDimensions(sharding);
  if (dims.size() != graph.getAxes(cell).size())
    return emitError(loc) << "expected a sharding of "
                          << graph.getAxes(cell).size() << " dimensions, got "
                          << sharding;
  for (auto [i, axes] : llvm::enumerate(dims)) {
    for (StringAttr axis : axes)
      if (!mesh.mesh.getAxisSize(axis))
        return emitError(loc)
               << "expected an axis of " << mesh.mesh << ", got " << axis;
    graph.appendAxes(cell, i, axes);
  }
  return success();
}

LogicalResult ModulePropagation::seedFromFunctions() {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    Block &body = function.getBody().front();
    for (BlockArgument argument : body.getArguments()) {
      std::optional<unsigned> cell = graph.getCell(argument);
      auto given = function.getArgAttrOfType<ShardingAttr>(
          argument.getArgNumber(), kShardingAttrName);
      if (cell && given && failed(seedCell(argument.getLoc(), *cell, given)))
        return failure();
    }
    for (OpOperand &result : body.getTerminator()->getOpOperands()) {
      std::optional<unsigned> cell = resultCell(function, result);
      auto given = function.getResultAttrOfType<ShardingAttr>(
          result.getOperandNumber(), kShardingAttrName);
      if (cell && given &&
          failed(seedCell(result.get().getLoc(), *cell, given)))
        return failure();
    }
  }
  graph.run();
  return success();
}

void ModulePropagation::writeFunction(func::FuncOp function) {
  if (function.isExternal())
    return;
  Block &body = function.getBody().front();
  auto set = [&](std::optional<unsigned> cell, auto &&setter) {
    if (cell)
      setter(makeSharding(mesh, graph.getAxes(*cell)));
  };
  for (BlockArgument argument : body.getArguments())
    if (!function.getArgAttr(argument.getArgNumber(), kShardingAttrName))
      set(graph.getCell(argument), [&](ShardingAttr sharding) {
        function.setArgAttr(argument.getArgNumber(), kShardingAttrName,
                            sharding);
      });
  for (OpOperand &result : body.getTerminator()->getOpOperands())
    if (!function.getResultAttr(result.getOperandNumber(), kShardingAttrName))
      set(resultCell(function, result), [&](ShardingAttr sharding) {
        function.setResultAttr(result.getOperandNumber(), kShardingAttrName,
                               sharding);
      });
}

void ModulePropagation::write() {
  for (unsigned i = 0; i < graph.getNumNodes(); ++i) {
    Operation *op = graph.getOp(i);
    const ShardingRule &rule = graph.getRule(i);
    writeFactorAxes(op, rule, graph.getFactors(i));
    SmallVector<Attribute> shardings;
    for (auto [k, result] : llvm::enumerate(op->getResults()))
      if (isa<RankedTensorType>(result.getType()))
        shardings.push_back(
            getResultSharding(rule, graph.getFactors(i), k, mesh));
    if (shardings.size() == 1)
      op->setAttr(kShardingAttrName, shardings[0]);
    else if (!shardings.empty())
      op->setAttr(kShardingAttrName,
                  ArrayAttr::get(op->getContext(), shardings));
  }
  for (auto &[op, carried] : controlFlow) {
    if (isa<func::FuncOp>(op) || carried.empty())
      continue;
    SmallVector<Attribute> shardings;
    for (const Carried &entry : carried)
      shardings.push_back(makeSharding(mesh, graph.getAxes(entry.cell)));
    op->setAttr(kCarriedAttrName, ArrayAttr::get(op->getContext(), shardings));
  }
  for (auto &[name, entry] : variables) {
    entry.first->removeAttr(kStorageAxesAttrName);
    entry.first.setStorageAttr(makeSharding(mesh, storage[name]));
  }
  for (auto [op, cell] : accesses)
    if (isa<LoadOp>(op))
      op->setAttr(kShardingAttrName,
                  makeSharding(mesh, storage[variableOf(op)]));
  for (auto function : module.getOps<func::FuncOp>())
    writeFunction(function);
}

LogicalResult ModulePropagation::run() {
  if (failed(build()))
    return failure();
  graph.run();
  if (failed(seedFromFunctions()) || failed(seedFromStorage()))
    return failure();
  write();
  return success();
}

namespace {
struct PropagateShardingsPass
    : heddle::impl::PropagateShardingsPassBase<PropagateShardingsPass> {
  void runOnOperation() override {
    MeshRef mesh = getMesh(getOperation());
    if (!mesh)
      return;
    repeatFreeTensors(getOperation());
    if (failed(ModulePropagation(getOperation(), mesh).run()))
      signalPassFailure();
  }
};
} // namespace
