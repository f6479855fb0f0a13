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
      partialStorage[name] = Axes(given.getPartialAxes());
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

/// What the attributes of an argument or result say of how it lies; null if
/// nothing. An error, at `loc`, for a sharding that its type cannot have.
FailureOr<ShardingAttr>
ModulePropagation::readBoundary(DictionaryAttr attributes, Type type,
                                Location loc) {
  auto given = attributes ? attributes.getAs<ShardingAttr>(kShardingAttrName)
                          : ShardingAttr();
  if (given && failed(verifySharding(loc, given, type, mesh)))
    return failure();
  return given;
}

LogicalResult ModulePropagation::addArguments() {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      DictionaryAttr attributes = function.getArgAttrDict(number);
      FailureOr<ShardingAttr> given =
          readBoundary(attributes, argument.getType(), argument.getLoc());
      if (failed(given))
        return failure();
      if (!*given)
        continue;
      unsigned cell = *graph.getCell(argument);
      for (const Axes &axes : getDimensions(*given))
        for (StringAttr axis : axes)
          seeds[{cell, axis}] = "argument " + std::to_string(number) + " of @" +
                                function.getName().str();
      graph.pinCell(cell, getDimensions(*given),
                    getBoundaryLevel(getPriority(attributes)),
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
      if (getBoundaryLevel(getPriority(attributes)) != level)
        continue;
      FailureOr<ShardingAttr> given = readBoundary(
          attributes, result.get().getType(), result.get().getLoc());
      if (failed(given))
        return failure();
      if (!*given)
        continue;
      unsigned cell = *resultCell(function, result);
      for (auto [i, axes] : llvm::enumerate(getDimensions(*given)))
        seed(cell, i, axes, Propagation::OriginKind::Boundary,
             "result " + Twine(number) + " of @" + function.getName());
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Pins and priorities
//===----------------------------------------------------------------------===//

void ModulePropagation::readLevels() {
  auto read = [&](DictionaryAttr attributes) {
    int64_t priority = getPriority(attributes);
    levels.insert({getFactorLevel(priority), getBoundaryLevel(priority)});
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    forEachOp(function,
              [&](Operation *op) { read(op->getDiscardableAttrDictionary()); });
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      read(function.getArgAttrDict(i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      read(function.getResultAttrDict(i));
  }
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
    graph.pinCell(
        cell, getDimensions(sharding),
        getFactorLevel(getPriority(op->getDiscardableAttrDictionary())),
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
      own = getStorage(variableOf(load));
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto reshard = builder.create<ReshardOp>(op->getLoc(), value.getType(),
                                             value, own, sharding);
    value.replaceAllUsesExcept(reshard.getResult(), reshard);
  }
}
