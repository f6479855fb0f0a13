//===- MaterializePins.cpp - Makes each pin a reshard ---------------------===//

#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/Boundaries.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/Pins.h"

namespace heddle {
#define GEN_PASS_DEF_MATERIALIZEPINSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns the sharding in which the op makes the result: by its factors, or by
/// the storage of the variable that it loads. Control flow and calls make
/// nothing; their results have the pinned sharding.
static FailureOr<ShardingAttr> getOwnSharding(OpResult result, ShardingAttr pin,
                                              MeshRef mesh) {
  Operation *op = result.getOwner();
  if (auto load = dyn_cast<LoadOp>(op)) {
    // The load's verifier has checked that the variable exists.
    auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(
        load, load.getVariableAttr());
    ShardingAttr storage = variable.getStorageAttr();
    if (!storage)
      return op->emitOpError()
             << "expected the storage of " << load.getVariableAttr()
             << ": run heddle-propagate-shardings before";
    return storage;
  }
  if (!hasFactors(op))
    return pin;
  ShardingRule rule = getRule(op);
  FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh.mesh);
  if (failed(axes))
    return failure();
  return getResultSharding(rule, *axes, result.getResultNumber(), mesh);
}

/// Makes a reshard of each pin of the op, even if the op makes the value in the
/// pinned sharding: no partial sum passes a pin.
static LogicalResult materializePins(Operation *op, MeshRef mesh) {
  llvm::MapVector<Value, ShardingAttr> pins;
  if (failed(readPins(op, pins)))
    return failure();
  op->removeAttr(kPinAttrName);
  for (auto [value, pin] : pins) {
    if (failed(verifySharding(op->getLoc(), pin, value.getType(), mesh)))
      return failure();
    FailureOr<ShardingAttr> own =
        getOwnSharding(cast<OpResult>(value), pin, mesh);
    if (failed(own))
      return failure();
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto reshard = builder.create<ReshardOp>(op->getLoc(), value.getType(),
                                             value, *own, pin);
    value.replaceAllUsesExcept(reshard.getResult(), reshard);
  }
  return success();
}

namespace {
struct MaterializePinsPass
    : heddle::impl::MaterializePinsPassBase<MaterializePinsPass> {
  void runOnOperation() override {
    FailureOr<MeshRef> mesh = getMeshOfGlobalProgram(getOperation());
    if (failed(mesh))
      return signalPassFailure();
    if (!*mesh)
      return;
    SmallVector<Operation *> pinned;
    for (auto function : getOperation().getOps<func::FuncOp>())
      forEachOp(function, [&](Operation *op) {
        if (op->hasAttr(kPinAttrName))
          pinned.push_back(op);
      });
    for (Operation *op : pinned)
      if (failed(materializePins(op, *mesh)))
        return signalPassFailure();
  }
};
} // namespace
