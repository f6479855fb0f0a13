//===- ShardingAssignment.cpp - Axes for every op and value ---------------===//

#include "heddle/Sharding/ShardingAssignment.h"
#include "GradientSums.h"
#include "ModuleGraph.h"
#include "heddle/Sharding/PartialSums.h"
#include "heddle/Sharding/Pins.h"
#include <set>

using namespace mlir;
using namespace heddle;
using Statement = PartialAssignment::Statement;

ArrayRef<Axes> ShardingAssignment::getFactors(Operation *op) const {
  std::optional<unsigned> node = graph.findNode(op);
  return node ? ArrayRef<Axes>(graph.getFactors(*node)) : ArrayRef<Axes>();
}

ArrayRef<Axes> ShardingAssignment::getAxes(Value value) const {
  std::optional<unsigned> cell = graph.findCell(value);
  return cell ? ArrayRef<Axes>(graph.getAxes(*cell)) : ArrayRef<Axes>();
}

namespace {

/// Gives the graph of a module its seeds, level by level, propagates them, and
/// returns the resulting assignment.
class Propagator {
public:
  Propagator(ModuleOp module, MeshRef mesh, const PartialAssignment &given)
      : module(module), mesh(mesh), given(given), program(mesh) {}

  FailureOr<ShardingAssignment> run();

private:
  std::set<int64_t> findLevels() const;
  LogicalResult addArguments();
  LogicalResult addPins();
  LogicalResult addResults(int64_t level);
  LogicalResult findStorage();
  void propagateStorage(int64_t level);
  void releaseSums();
  ShardingAssignment finish();

  /// Calls `body` for each result of each function.
  void forEachResult(function_ref<void(func::FuncOp, OpOperand &)> body);
  /// Adds axes to those that the cell wants, and records `seed` for them.
  void seed(unsigned cell, unsigned dim, ArrayRef<StringAttr> axes,
            Propagation::OriginKind kind, const Seed &seed);
  /// Fixes the axes that the cell wants to those of `sharding`.
  void pin(unsigned cell, ShardingAttr sharding, int64_t level,
           Propagation::OriginKind kind, const Seed &seed);
  void seedFromStorage(unsigned cell, VariableOp variable,
                       const DimensionAxes &dims);

  ModuleOp module;
  MeshRef mesh;
  const PartialAssignment &given;
  ModuleGraph program;
  VariableStorages storage;
  llvm::DenseMap<std::pair<unsigned, StringAttr>, Seed> seeds;
};

} // namespace

//===----------------------------------------------------------------------===//
// Seeds
//===----------------------------------------------------------------------===//

void Propagator::seed(unsigned cell, unsigned dim, ArrayRef<StringAttr> axes,
                      Propagation::OriginKind kind, const Seed &seed) {
  for (StringAttr axis : axes)
    seeds.try_emplace({cell, axis}, seed);
  program.graph.appendAxes(cell, dim, axes, {kind, {}});
}

void Propagator::pin(unsigned cell, ShardingAttr sharding, int64_t level,
                     Propagation::OriginKind kind, const Seed &seed) {
  for (const Axes &axes : getDimensions(sharding))
    for (StringAttr axis : axes)
      seeds[{cell, axis}] = seed;
  program.graph.pinCell(cell, getDimensions(sharding), level, {kind, {}});
}

void Propagator::forEachResult(
    function_ref<void(func::FuncOp, OpOperand &)> body) {
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      for (OpOperand &result :
           function.getBody().front().getTerminator()->getOpOperands())
        body(function, result);
}

/// Returns the levels of all priorities that occur, and of priority 0.
std::set<int64_t> Propagator::findLevels() const {
  std::set<int64_t> levels = {getFactorLevel(0), getBoundaryLevel(0)};
  auto add = [&](int64_t priority) {
    levels.insert({getFactorLevel(priority), getBoundaryLevel(priority)});
  };
  for (const auto &[op, factors] : given.operators)
    add(factors.priority);
  for (const auto &[value, pin] : given.pins)
    add(pin.priority);
  for (const auto &[argument, statement] : given.arguments)
    add(statement.priority);
  for (const auto &[result, statement] : given.results)
    add(statement.priority);
  return levels;
}

LogicalResult Propagator::addArguments() {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    for (BlockArgument argument : function.getArguments()) {
      auto found = given.arguments.find(argument);
      if (found == given.arguments.end())
        continue;
      auto [sharding, priority] = found->second;
      if (failed(verifySharding(argument.getLoc(), sharding, argument.getType(),
                                mesh)))
        return failure();
      pin(*program.graph.getCell(argument), sharding,
          getBoundaryLevel(priority), Propagation::OriginKind::Boundary,
          {Seed::Kind::Argument, function, argument.getArgNumber()});
    }
  }
  return success();
}

LogicalResult Propagator::addPins() {
  llvm::MapVector<unsigned, Value> pinned;
  for (auto &[value, statement] : given.pins) {
    ShardingAttr sharding = statement.sharding;
    if (failed(verifySharding(value.getLoc(), sharding, value.getType(), mesh)))
      return failure();
    unsigned cell = *program.graph.getCell(value);
    // Values of control flow or calls may share a cell, so their pins must be
    // equal.
    auto [known, isNew] = pinned.insert({cell, value});
    ShardingAttr first = given.pins.find(known->second)->second.sharding;
    if (!isNew && first != sharding) {
      auto diag = value.getDefiningOp()->emitOpError()
                  << "expected " << kPinAttrName << " " << first
                  << ", as of the value that lies as this one does, got "
                  << sharding;
      diag.attachNote(known->second.getLoc()) << "the other is here";
      return failure();
    }
    pin(cell, sharding, getFactorLevel(statement.priority),
        Propagation::OriginKind::Pin,
        {Seed::Kind::Pin, value.getDefiningOp(), 0});
  }
  return success();
}

LogicalResult Propagator::addResults(int64_t level) {
  LogicalResult status = success();
  forEachResult([&](func::FuncOp function, OpOperand &result) {
    auto found = given.results.find(&result);
    if (failed(status) || found == given.results.end() ||
        getBoundaryLevel(found->second.priority) != level)
      return;
    ShardingAttr sharding = found->second.sharding;
    status = verifySharding(result.get().getLoc(), sharding,
                            result.get().getType(), mesh);
    if (failed(status))
      return;
    unsigned cell = *program.getResultCell(result);
    for (auto [dim, axes] : llvm::enumerate(getDimensions(sharding)))
      seed(cell, dim, axes, Propagation::OriginKind::Boundary,
           {Seed::Kind::Result, function, result.getOperandNumber()});
  });
  return status;
}

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

void Propagator::seedFromStorage(unsigned cell, VariableOp variable,
                                 const DimensionAxes &dims) {
  for (auto [dim, axes] : llvm::enumerate(dims))
    seed(cell, dim, axes, Propagation::OriginKind::Storage,
         {Seed::Kind::Storage, variable, 0});
}

/// Decides over which axes each variable is stored. A stated storage is taken
/// as it is. Otherwise these are the axes that the uses of the variable want,
/// and behind them its own storage axes.
LogicalResult Propagator::findStorage() {
  for (auto &[name, entry] : program.variables) {
    auto [variable, cell] = entry;
    if (auto stated = given.storage.find(name); stated != given.storage.end()) {
      ShardingAttr sharding = stated->second;
      if (failed(verifySharding(variable.getLoc(), sharding,
                                variable.getTensorType(), mesh)))
        return failure();
      storage.insert({name,
                      {getDimensions(sharding), Axes(sharding.getPartialAxes()),
                       /*isGiven=*/true}});
      continue;
    }
    if (auto extra = given.storageAxes.find(name);
        extra != given.storageAxes.end()) {
      int64_t rank = variable.getTensorType().getRank();
      if (int64_t(extra->second.size()) != rank)
        return variable.emitOpError() << "expected " << kStorageAxesAttrName
                                      << " of " << rank << " dimensions";
      seedFromStorage(cell, variable, extra->second);
    }
    storage.insert({name, {program.graph.getAxes(cell), {}}});
  }
  return success();
}

/// Propagates from storage, so that an update is computed where its state is
/// stored. The model also uses parameters and buffers that are loaded, so their
/// storage is no seed. All other values that are loaded or stored belong to the
/// update alone.
void Propagator::propagateStorage(int64_t level) {
  program.graph.clearLinks();
  program.freezeModel();
  for (const ModuleGraph::Access &access : program.accesses) {
    StringAttr name = getVariableOf(access.op);
    VariableOp variable = program.variables.find(name)->second.op;
    if (!isa<LoadOp>(access.op) || !variable.isOfModel())
      seedFromStorage(access.cell, variable, storage.find(name)->second.dims);
  }
  program.graph.run(level);
}

//===----------------------------------------------------------------------===//
// All steps
//===----------------------------------------------------------------------===//

/// Takes an axis from each op that adds several values that are partial sums
/// over this axis. The result is then a partial sum: one reduction after the op
/// replaces several before it. Example: the sum of the gradients that queries,
/// keys and values give to their common input.
void Propagator::releaseSums() {
  Propagation &graph = program.graph;
  auto factorsOf = [&](Operation *op, const ShardingRule &rule) {
    std::optional<unsigned> node = graph.findNode(op);
    return node ? graph.getFactors(*node) : FactorAxes(rule.factors.size());
  };
  auto mayRelease = [&](Operation *op) {
    std::optional<unsigned> node = graph.findNode(op);
    return node && !graph.hasPinnedFactors(*node) &&
           llvm::none_of(op->getOperands(), [&](Value operand) {
             return given.pins.contains(operand);
           });
  };
  auto release = [&](Block &block) {
    PartialSums sums(block, mesh, factorsOf, mayRelease);
    for (auto &[op, axes] : sums.getReleased())
      graph.releaseAxes(*graph.findNode(op), axes);
  };
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      forEachBlock(function, release);
}

ShardingAssignment Propagator::finish() {
  ShardingAssignment result{
      Propagation(mesh), std::move(seeds), {}, {}, {}, {}};
  auto getSharding = [&](unsigned cell) {
    return makeSharding(mesh, program.graph.getAxes(cell));
  };
  for (auto &[op, carried] : program.controlFlow)
    if (!isa<func::FuncOp>(op))
      for (const ModuleGraph::Carried &entry : carried)
        result.carried[op].push_back(getSharding(entry.cell));
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      for (BlockArgument argument : function.getArguments())
        if (std::optional<unsigned> cell = program.graph.getCell(argument)) {
          auto stated = given.arguments.find(argument);
          result.arguments[argument] = stated == given.arguments.end()
                                           ? getSharding(*cell)
                                           : stated->second.sharding;
        }
  forEachResult([&](func::FuncOp, OpOperand &returned) {
    if (std::optional<unsigned> cell = program.getResultCell(returned)) {
      auto stated = given.results.find(&returned);
      result.results[&returned] = stated == given.results.end()
                                      ? getSharding(*cell)
                                      : stated->second.sharding;
    }
  });
  for (auto &[name, entry] : storage)
    result.storage[name] = makeSharding(mesh, entry.dims, entry.partial);
  result.graph = std::move(program.graph);
  return result;
}

FailureOr<ShardingAssignment> Propagator::run() {
  if (failed(program.build(module, given)) || failed(addArguments()) ||
      failed(addPins()))
    return failure();
  std::set<int64_t> levels = findLevels();
  for (int64_t level : levels) {
    if (failed(addResults(level)))
      return failure();
    program.graph.run(level);
  }
  if (failed(findStorage()))
    return failure();
  propagateStorage(*levels.rbegin());
  releaseSums();
  if (given.gradientReduction == GradientReduction::Step)
    deferGradientSums(program, mesh, storage);
  return finish();
}

FailureOr<ShardingAssignment>
heddle::propagateShardings(ModuleOp module, MeshRef mesh,
                           const PartialAssignment &given) {
  return Propagator(module, mesh, given).run();
}
