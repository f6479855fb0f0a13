//===- ModuleSeeds.cpp - Where propagation starts -------------------------===//

#include "ModulePropagation.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

/// What comes before an op of the model is the model's: it is not recomputed,
/// nor split, for the sake of storage.
void ModulePropagation::growModel() {
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
        seed(cell, dim, axes, Propagation::OriginKind::Storage,
             "the storage of @" + Twine(name.getValue()));
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
      seed(cell, dim, axes, Propagation::OriginKind::Storage,
           "the storage of @" + Twine(variableOf(op).getValue()));
  }
  graph.run(*levels.rbegin());
  return success();
}

//===----------------------------------------------------------------------===//
// Arguments and results of functions
//===----------------------------------------------------------------------===//

/// Of what a function returns: its callers' cell if it has callers.
std::optional<unsigned> ModulePropagation::resultCell(func::FuncOp function,
                                                      OpOperand &returned) {
  auto shared = resultCells.find(function);
  return shared == resultCells.end()
             ? graph.getCell(returned.get())
             : shared->second[returned.getOperandNumber()];
}

void ModulePropagation::seed(unsigned cell, unsigned dim,
                             ArrayRef<StringAttr> axes,
                             Propagation::OriginKind kind, const Twine &name) {
  for (StringAttr axis : axes)
    seeds.try_emplace({cell, axis}, name.str());
  graph.appendAxes(cell, dim, axes, {kind, {}});
}

LogicalResult ModulePropagation::addArguments() {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    for (BlockArgument argument : function.getArguments()) {
      DictionaryAttr attributes =
          function.getArgAttrDict(argument.getArgNumber());
      std::optional<unsigned> cell = graph.getCell(argument);
      auto given = attributes
                       ? attributes.getAs<ShardingAttr>(kShardingAttrName)
                       : ShardingAttr();
      FailureOr<int64_t> priority = readPriority(function, attributes);
      if (failed(priority))
        return failure();
      if (!given)
        continue;
      if (failed(verifySharding(argument.getLoc(), given, argument.getType(),
                                mesh)))
        return failure();
      for (const Axes &axes : getDimensions(given))
        for (StringAttr axis : axes)
          seeds[{*cell, axis}] = "argument " +
                                 std::to_string(argument.getArgNumber()) +
                                 " of @" + function.getName().str();
      graph.pinCell(*cell, getDimensions(given), getBoundaryLevel(*priority),
                    {Propagation::OriginKind::Boundary, {}});
    }
  }
  return success();
}

LogicalResult ModulePropagation::seedResults(int64_t level) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    for (OpOperand &result :
         function.getBody().front().getTerminator()->getOpOperands()) {
      unsigned number = result.getOperandNumber();
      DictionaryAttr attributes = function.getResultAttrDict(number);
      std::optional<unsigned> cell = resultCell(function, result);
      auto given = attributes
                       ? attributes.getAs<ShardingAttr>(kShardingAttrName)
                       : ShardingAttr();
      FailureOr<int64_t> priority = readPriority(function, attributes);
      if (failed(priority))
        return failure();
      if (!given || getBoundaryLevel(*priority) != level)
        continue;
      if (failed(verifySharding(result.get().getLoc(), given,
                                result.get().getType(), mesh)))
        return failure();
      for (auto [i, axes] : llvm::enumerate(getDimensions(given)))
        seed(*cell, i, axes, Propagation::OriginKind::Boundary,
             "result " + Twine(number) + " of @" + function.getName());
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Pins and priorities
//===----------------------------------------------------------------------===//

LogicalResult ModulePropagation::readLevels() {
  LogicalResult status = success();
  auto read = [&](Operation *op, DictionaryAttr attributes) {
    FailureOr<int64_t> level = readPriority(op, attributes);
    if (failed(level))
      status = failure();
    else
      levels.insert({getFactorLevel(*level), getBoundaryLevel(*level)});
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    forEachOp(function, [&](Operation *op) {
      read(op, op->getDiscardableAttrDictionary());
    });
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      read(function, function.getArgAttrDict(i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      read(function, function.getResultAttrDict(i));
  }
  return status;
}

LogicalResult ModulePropagation::addPins() {
  LogicalResult status = success();
  for (auto function : module.getOps<func::FuncOp>())
    forEachOp(function, [&](Operation *op) {
      if (succeeded(status))
        status = readPins(op, mesh, pins);
    });
  if (failed(status))
    return failure();
  llvm::MapVector<unsigned, Value> pinned;
  for (auto [value, sharding] : pins) {
    Operation *op = value.getDefiningOp();
    FailureOr<int64_t> level =
        readPriority(op, op->getDiscardableAttrDictionary());
    if (failed(level))
      return failure();
    unsigned cell = *graph.getCell(value);
    // Several values of control flow or calls may be one.
    auto [known, isNew] = pinned.insert({cell, value});
    if (!isNew && pins[known->second] != sharding) {
      auto diag = op->emitOpError()
                  << "expected " << kPinAttrName << " " << pins[known->second]
                  << ", as of the value that lies as this one does, got "
                  << sharding;
      diag.attachNote(known->second.getLoc()) << "the other is here";
      return failure();
    }
    for (const Axes &axes : getDimensions(sharding))
      for (StringAttr axis : axes)
        seeds[{cell, axis}] = "the pin of " + describeOp(op);
    graph.pinCell(cell, getDimensions(sharding), getFactorLevel(*level),
                  {Propagation::OriginKind::Pin, {}});
  }
  return success();
}

/// A pin is a reshard, even to what the op makes: no partial sum passes it.
void ModulePropagation::materializePins() {
  for (auto [value, sharding] : pins) {
    Operation *op = value.getDefiningOp();
    op->removeAttr(kPinAttrName);
    ShardingAttr own = sharding;
    if (std::optional<unsigned> node = graph.findNode(op))
      own = getResultSharding(graph.getRule(*node), graph.getFactors(*node),
                              cast<OpResult>(value).getResultNumber(), mesh);
    else if (auto load = dyn_cast<LoadOp>(op))
      own = makeSharding(mesh, storage[variableOf(load)]);
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto reshard = builder.create<ReshardOp>(op->getLoc(), value.getType(),
                                             value, own, sharding);
    value.replaceAllUsesExcept(reshard.getResult(), reshard);
  }
}
