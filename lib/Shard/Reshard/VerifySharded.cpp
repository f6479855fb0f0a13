//===- VerifySharded.cpp - Checks the sharded program ---------------------===//

#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/Boundaries.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/Pins.h"
#include "mlir/Transforms/RegionUtils.h"

namespace heddle {
#define GEN_PASS_DEF_VERIFYSHARDEDPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Variables and functions
//===----------------------------------------------------------------------===//

static LogicalResult verifyVariable(VariableOp variable) {
  if (variable->hasAttr(kStorageAxesAttrName))
    return variable.emitOpError()
           << "expected no " << kStorageAxesAttrName << " after sharding";
  if (!variable.getStorageAttr()) // getMeshOfGlobalProgram checks its axes
    return variable.emitOpError()
           << "expected a storage over the mesh, got none";
  return success();
}

/// Checks that an argument or result has a sharding, if it is a tensor.
static LogicalResult verifyIsSharded(func::FuncOp function, const Twine &what,
                                     Type type, Attribute attribute,
                                     MeshRef mesh) {
  if (!isa<RankedTensorType>(type))
    return success();
  auto sharding = dyn_cast_if_present<ShardingAttr>(attribute);
  if (!sharding)
    return function.emitOpError()
           << "expected " << what << " to have " << kShardingAttrName;
  return verifySharding(function.getLoc(), sharding, type, mesh);
}

static LogicalResult verifySignature(func::FuncOp function, MeshRef mesh) {
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (failed(verifyIsSharded(function, "argument " + Twine(i), type,
                               function.getArgAttr(i, kShardingAttrName),
                               mesh)))
      return failure();
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (failed(verifyIsSharded(function, "result " + Twine(i), type,
                               function.getResultAttr(i, kShardingAttrName),
                               mesh)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

namespace {

/// Checks the ops of one function in textual order. Compares the sharding that
/// an op needs of each operand with the sharding that an earlier op gave that
/// value.
class FunctionVerifier {
public:
  FunctionVerifier(func::FuncOp function, MeshRef mesh)
      : function(function), mesh(mesh) {}

  LogicalResult run();

private:
  LogicalResult verify(Operation *op);
  LogicalResult verifyAccess(Operation *op);
  LogicalResult verifyCall(func::CallOp call);
  LogicalResult verifyControlFlow(Operation *op);
  LogicalResult verifyByRule(Operation *op);
  LogicalResult verifyCaptured(Operation *op);
  /// Checks the operands that control flow passes on or a function returns.
  LogicalResult verifyPassedOn(Operation *op);

  LogicalResult expectOperand(OpOperand &operand, ShardingAttr need);
  /// Records `made` as the result's sharding, and checks that the op's
  /// `heddle.sharding` states it.
  LogicalResult expectResult(OpResult result, ShardingAttr made);
  /// Returns the axes of the partial sums that pass through the op from its
  /// operands to its results. They come in addition to the partial sums that
  /// its factors make. Empty if the op's rule does not let sums pass.
  Axes findPassedSums(Operation *op, const ShardingRule &rule,
                      const FactorAxes &axes) const;

  func::FuncOp function;
  MeshRef mesh;
  SymbolTableCollection tables;
  DenseMap<Value, ShardingAttr> shardings;
  /// The shardings that control flow needs of the operands that it passes on.
  DenseMap<OpOperand *, ShardingAttr> passedOn;
};

} // namespace

LogicalResult FunctionVerifier::expectOperand(OpOperand &operand,
                                              ShardingAttr need) {
  ShardingAttr got = shardings.lookup(operand.get());
  if (got == need)
    return success();
  auto diag = operand.getOwner()->emitOpError()
              << "expected operand " << operand.getOperandNumber() << " to lie "
              << need << ", got " << got
              << "; run heddle-insert-reshards before";
  if (Operation *maker = operand.get().getDefiningOp())
    diag.attachNote(maker->getLoc()) << "made here";
  return diag;
}

/// Returns the sharding that the op's `heddle.sharding` states for the result;
/// null if there is none.
static ShardingAttr getStatedSharding(OpResult result) {
  Attribute stated = result.getOwner()->getAttr(kShardingAttrName);
  unsigned index = llvm::count_if(
      result.getOwner()->getResults().take_front(result.getResultNumber()),
      [](Value other) { return isa<RankedTensorType>(other.getType()); });
  if (auto list = dyn_cast_if_present<ArrayAttr>(stated))
    stated = index < list.size() ? list[index] : Attribute();
  return dyn_cast_if_present<ShardingAttr>(stated);
}

LogicalResult FunctionVerifier::expectResult(OpResult result,
                                             ShardingAttr made) {
  shardings[result] = made;
  if (ShardingAttr stated = getStatedSharding(result); stated != made) {
    auto diag = result.getOwner()->emitOpError()
                << "expected " << kShardingAttrName << " to be " << made
                << ", which it makes of result " << result.getResultNumber()
                << ", got ";
    return stated ? diag << stated : diag << "none";
  }
  return success();
}

LogicalResult FunctionVerifier::verifyAccess(Operation *op) {
  auto load = dyn_cast<LoadOp>(op);
  auto name =
      load ? load.getVariableAttr() : cast<StoreOp>(op).getVariableAttr();
  // The verifier of the load or store has checked that the variable exists.
  auto variable = tables.lookupNearestSymbolFrom<VariableOp>(op, name);
  ShardingAttr storage = variable.getStorageAttr();
  return load ? expectResult(cast<OpResult>(load.getResult()), storage)
              : expectOperand(op->getOpOperand(0), storage);
}

LogicalResult FunctionVerifier::verifyCall(func::CallOp call) {
  FailureOr<func::FuncOp> callee = getCallee(call);
  if (failed(callee))
    return failure();
  for (OpOperand &operand : call->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()) &&
        failed(expectOperand(
            operand, callee->getArgAttrOfType<ShardingAttr>(
                         operand.getOperandNumber(), kShardingAttrName))))
      return failure();
  for (OpResult result : call.getResults())
    if (isa<RankedTensorType>(result.getType()) &&
        failed(expectResult(result,
                            callee->getResultAttrOfType<ShardingAttr>(
                                result.getResultNumber(), kShardingAttrName))))
      return failure();
  return success();
}

LogicalResult FunctionVerifier::verifyControlFlow(Operation *op) {
  FailureOr<SmallVector<CarriedValue>> carried = getCarriedValues(op);
  if (failed(carried))
    return failure();
  auto stated = op->getAttrOfType<ArrayAttr>(kCarriedAttrName);
  size_t count = stated ? stated.size() : 0;
  if (carried->size() != count)
    return op->emitOpError() << "expected " << kCarriedAttrName << " with "
                             << carried->size() << " shardings, got " << count;
  for (auto [i, entry] : llvm::enumerate(*carried)) {
    auto sharding = cast<ShardingAttr>(stated[i]); // HeddleDialect checks it
    if (failed(verifySharding(op->getLoc(), sharding, entry.getType(), mesh)))
      return failure();
    for (OpOperand *source : entry.sources)
      passedOn[source] = sharding;
    for (Value value : entry.values) {
      shardings[value] = sharding;
      if (auto result = dyn_cast<OpResult>(value);
          result && failed(expectResult(result, sharding)))
        return failure();
    }
  }
  return verifyPassedOn(op);
}

LogicalResult FunctionVerifier::verifyPassedOn(Operation *op) {
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type)
      continue;
    ShardingAttr need =
        ShardingAttr::getReplicated(mesh.symbol, type.getRank());
    if (auto known = passedOn.find(&operand); known != passedOn.end())
      need = known->second;
    else if (isa<func::ReturnOp>(op))
      need = function.getResultAttrOfType<ShardingAttr>(
          operand.getOperandNumber(), kShardingAttrName);
    if (failed(expectOperand(operand, need)))
      return failure();
  }
  return success();
}

/// Checks the tensors that the op's regions read from outside. Such a read may
/// be at any position, so the tensor must be whole on every device.
LogicalResult FunctionVerifier::verifyCaptured(Operation *op) {
  LogicalResult status = success();
  for (Region &region : op->getRegions())
    visitUsedValuesDefinedAbove(region, [&](OpOperand *operand) {
      auto type = dyn_cast<RankedTensorType>(operand->get().getType());
      if (!type || failed(status))
        return;
      ShardingAttr got = shardings.lookup(operand->get());
      if (got != ShardingAttr::getReplicated(mesh.symbol, type.getRank()))
        status = op->emitOpError()
                 << "expected every device to have all of the tensor that its "
                    "region reads, got "
                 << got << "; run heddle-insert-reshards before";
    });
  return status;
}

Axes FunctionVerifier::findPassedSums(Operation *op, const ShardingRule &rule,
                                      const FactorAxes &axes) const {
  SmallVector<unsigned, 2> operands;
  Axes passed;
  for (OpOperand &operand : op->getOpOperands()) {
    ShardingAttr got = shardings.lookup(operand.get());
    if (!got || !got.isPartial() ||
        got.getPartialKind() != ReductionKind::Sum ||
        got == getOperandSharding(rule, axes, operand.getOperandNumber(), mesh))
      continue;
    if (!operands.empty() && Axes(got.getPartialAxes()) != passed)
      return {};
    passed = Axes(got.getPartialAxes());
    operands.push_back(operand.getOperandNumber());
  }
  bool isLinear = llvm::any_of(rule.linear, [&](const LinearGroup &group) {
    return group.results.empty() && group.operands == operands;
  });
  bool isUsed = llvm::any_of(axes, [&](const Axes &list) {
    return llvm::any_of(list, [&](StringAttr axis) {
      return llvm::is_contained(passed, axis);
    });
  });
  return rule.defersPartialSums && isLinear && !isUsed ? passed : Axes();
}

LogicalResult FunctionVerifier::verifyByRule(Operation *op) {
  ShardingRule rule = getRule(op);
  FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh.mesh);
  if (failed(axes))
    return failure();
  if (!isRepresentable(rule, *axes, mesh.mesh))
    return op->emitOpError() << "expected factors of merged dimensions to "
                                "divide, and minor ones to be whole, got "
                             << op->getAttr(kFactorsAttrName);
  Axes passed = findPassedSums(op, rule, *axes);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    ShardingAttr need =
        getOperandSharding(rule, *axes, operand.getOperandNumber(), mesh);
    ShardingAttr got = shardings.lookup(operand.get());
    if (!passed.empty() && got && Axes(got.getPartialAxes()) == passed)
      need = makeSharding(mesh, getDimensions(need), passed);
    if (failed(expectOperand(operand, need)))
      return failure();
  }
  for (OpResult result : op->getResults()) {
    if (!isa<RankedTensorType>(result.getType()))
      continue;
    ShardingAttr own =
        getResultSharding(rule, *axes, result.getResultNumber(), mesh);
    if (!passed.empty()) {
      Axes all = passed;
      all.append(own.getPartialAxes().begin(), own.getPartialAxes().end());
      own = makeSharding(mesh, getDimensions(own), all);
    }
    if (failed(expectResult(result, own)))
      return failure();
  }
  return verifyCaptured(op);
}

LogicalResult FunctionVerifier::verify(Operation *op) {
  for (StringRef name : {kSplitAttrName, kPinAttrName})
    if (op->hasAttr(name))
      return op->emitOpError() << "expected no " << name << " after sharding";
  if (isa<LoadOp, StoreOp>(op))
    return verifyAccess(op);
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    shardings[reshard.getResult()] = reshard.getTo();
    return expectOperand(op->getOpOperand(0), reshard.getFrom());
  }
  if (auto call = dyn_cast<func::CallOp>(op))
    return verifyCall(call);
  if (isControlFlow(op))
    return verifyControlFlow(op);
  if (op->hasTrait<OpTrait::IsTerminator>())
    return verifyPassedOn(op);
  return verifyByRule(op);
}

LogicalResult FunctionVerifier::run() {
  for (BlockArgument argument : function.getArguments())
    if (isa<RankedTensorType>(argument.getType()))
      shardings[argument] = function.getArgAttrOfType<ShardingAttr>(
          argument.getArgNumber(), kShardingAttrName);
  LogicalResult status = success();
  forEachOp(function, [&](Operation *op) {
    if (succeeded(status))
      status = verify(op);
  });
  return status;
}

namespace {
struct VerifyShardedPass
    : heddle::impl::VerifyShardedPassBase<VerifyShardedPass> {
  void runOnOperation() override {
    FailureOr<MeshRef> mesh = getMeshOfGlobalProgram(getOperation());
    if (failed(mesh) || (*mesh && failed(verifyModule(*mesh))))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verifyModule(MeshRef mesh) {
    for (auto variable : getOperation().getOps<VariableOp>())
      if (failed(verifyVariable(variable)))
        return failure();
    // Verifying a call reads the callee's boundaries, so all of them are
    // verified first.
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(verifySignature(function, mesh)))
        return failure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(FunctionVerifier(function, mesh).run()))
        return failure();
    return success();
  }
};
} // namespace
