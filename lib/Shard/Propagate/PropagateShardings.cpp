//===- PropagateShardings.cpp - Completes the assignment ------------------===//

#include "../Explain/PaddingWarnings.h"
#include "../SplitOperators/Slices.h"
#include "ModulePropagation.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/Boundaries.h"
#include "heddle/Sharding/PartialSums.h"
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

/// A dialect of somebody else may say anything of its ops.
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

/// An op of the forward or backward pass. Its assignment follows from the
/// plan's "operators" alone.
static bool isModelOp(Operation *op) {
  return op->hasAttr(kFactorsAttrName) || op->hasTrait<NetworkOp>();
}

StringAttr heddle::variableOf(Operation *access) {
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
  if (failed(verifyRule(op, rule)))
    return failure();
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
  int64_t priority = getPriority(op->getDiscardableAttrDictionary());
  graph.addNode(op, std::move(rule), std::move(*axes), pinned,
                getFactorLevel(priority));
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

void ModulePropagation::releaseSums() {
  auto factorsOf = [&](Operation *op, const ShardingRule &rule) {
    std::optional<unsigned> node = graph.findNode(op);
    return node ? graph.getFactors(*node) : FactorAxes(rule.factors.size());
  };
  auto mayRelease = [&](Operation *op) {
    std::optional<unsigned> node = graph.findNode(op);
    return node && !graph.hasPinnedFactors(*node) &&
           llvm::none_of(op->getOperands(),
                         [&](Value operand) { return pins.contains(operand); });
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
    entry.first.setStorageAttr(getStorage(name));
  }
  for (auto [op, cell] : accesses)
    if (isa<LoadOp>(op))
      op->setAttr(kShardingAttrName, getStorage(variableOf(op)));
  for (auto function : module.getOps<func::FuncOp>())
    writeFunction(function);
}

LogicalResult ModulePropagation::run() {
  readLevels();
  if (failed(build()) || failed(addArguments()) || failed(addPins()))
    return failure();
  for (int64_t level : levels) {
    if (failed(seedResults(level)))
      return failure();
    graph.run(level);
  }
  if (failed(seedFromStorage()))
    return failure();
  releaseSums();
  deferGradientSums();
  write();
  return success();
}

void ModulePropagation::explain() {
  ShardingExplainer explainer(graph, mesh, seeds);
  for (auto function : module.getOps<func::FuncOp>())
    explainer.explain(function);
}

namespace {
struct PropagateShardingsPass
    : heddle::impl::PropagateShardingsPassBase<PropagateShardingsPass> {
  using Base::Base;

  void runOnOperation() override {
    MeshRef mesh = getMesh(getOperation());
    if (failed(verifyBoundaries(getOperation(), mesh)))
      return signalPassFailure();
    if (!mesh)
      return;
    repeatFreeTensors(getOperation());
    ModulePropagation propagation(getOperation(), mesh);
    if (failed(propagation.run()))
      return signalPassFailure();
    if (remarkConflicts) {
      auto sequences = ReshardSequences::create(getOperation(), mesh, cluster);
      if (failed(sequences))
        return signalPassFailure();
      propagation.reportConflicts(*sequences);
    }
    if (explain)
      propagation.explain();
    warnOfPadding(getOperation(), mesh);
    propagation.materializePins();
  }
};
} // namespace
