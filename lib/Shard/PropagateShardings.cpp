//===- PropagateShardings.cpp - Completes the assignment ------------------===//

#include "Propagation.h"
#include "heddle/Shard/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace heddle {
#define GEN_PASS_DEF_PROPAGATESHARDINGSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// A tensor that is made of nothing, or of scalars: in any sharding, for free.
static bool isFreeTensor(Operation *op) {
  if (op->getNumResults() != 1 || !isPure(op) || !getOpName(op).empty())
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || type.getRank() == 0 || !isa<ShardingRuleOpInterface>(op))
    return false;
  return llvm::all_of(op->getOperandTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return !tensor || tensor.getRank() == 0;
  });
}

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
  LogicalResult seedFromStorage();
  LogicalResult seedFromFunctions();
  LogicalResult seedCell(Location loc, unsigned cell, ShardingAttr sharding);
  void write();
  void writeFunction(func::FuncOp function);

  ModuleOp module;
  MeshRef mesh;
  Propagation graph;
  llvm::MapVector<StringAttr, std::pair<VariableOp, unsigned>> variables;
  DenseMap<StringAttr, DimensionAxes> storage;
  /// Loads and stores with the cell of their value.
  SmallVector<std::pair<Operation *, unsigned>> accesses;
  SmallVector<bool> isOfModel; ///< by node
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
  bool hasTensors = llvm::any_of(
      llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()),
                               SmallVector<Type>(op->getResultTypes())),
      [](Type type) { return isa<RankedTensorType>(type); });
  if (!isa<ShardingRuleOpInterface>(op) && op->getNumRegions() != 0)
    return op->emitOpError()
           << "cannot be partitioned: it has regions and no sharding rule";
  if (isa<CallOpInterface>(op) && hasTensors)
    return op->emitOpError()
           << "cannot be partitioned: calls are not supported; inline it";
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
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError()
           << "cannot be partitioned: expected one block, got "
           << function.getBody().getBlocks().size();
  for (Operation &op : function.getBody().front())
    if (failed(addOp(&op)))
      return failure();
  return success();
}

LogicalResult ModulePropagation::build() {
  for (VariableOp variable : module.getOps<VariableOp>())
    variables.insert({variable.getSymNameAttr(),
                      {variable, graph.addCell(variable.getTensorType())}});
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(addFunction(function)))
      return failure();
  return success();
}

/// What comes before an op of the model is the model's: it is not recomputed,
/// nor split, for the sake of storage.
static void growModel(const Propagation &graph,
                      MutableArrayRef<bool> isOfModel) {
  DenseMap<Operation *, unsigned> nodeOf;
  for (unsigned i = 0; i < graph.getNumNodes(); ++i)
    nodeOf[graph.getOp(i)] = i;
  // Nodes are in order of the text: operands come first.
  for (unsigned i = graph.getNumNodes(); i-- > 0;)
    if (isOfModel[i])
      for (Value operand : graph.getOp(i)->getOperands())
        if (auto known = nodeOf.find(operand.getDefiningOp());
            known != nodeOf.end())
          isOfModel[known->second] = true;
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
  growModel(graph, isOfModel);
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
      std::optional<unsigned> cell = graph.getCell(result.get());
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
  auto set = [&](Value value, auto &&setter) {
    if (std::optional<unsigned> cell = graph.getCell(value))
      setter(makeSharding(mesh, graph.getAxes(*cell)));
  };
  for (BlockArgument argument : body.getArguments())
    if (!function.getArgAttr(argument.getArgNumber(), kShardingAttrName))
      set(argument, [&](ShardingAttr sharding) {
        function.setArgAttr(argument.getArgNumber(), kShardingAttrName,
                            sharding);
      });
  for (OpOperand &result : body.getTerminator()->getOpOperands())
    if (!function.getResultAttr(result.getOperandNumber(), kShardingAttrName))
      set(result.get(), [&](ShardingAttr sharding) {
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
