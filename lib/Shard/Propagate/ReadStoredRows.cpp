//===- ReadStoredRows.cpp - Reads rows where they are stored --------------===//

#include "ReadAsStored.h"
#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "heddle/Sharding/StatedFactors.h"
#include "heddle/Support/Bytes.h"

namespace heddle {
#define GEN_PASS_DEF_READSTOREDROWSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns the seconds that it takes to bring the operands to the op, and its
/// results to where they are without this pass.
static double getSeconds(Operation *op, const ShardingRule &rule,
                         const FactorAxes &from, const FactorAxes &to,
                         OpOperand &parameter, ShardingAttr storage,
                         MeshRef mesh, ReshardSequences &sequences) {
  double seconds = 0;
  auto add = [&](Type type, ShardingAttr source, ShardingAttr target) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      seconds += sequences.getCost(tensor, source, target).seconds;
  };
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    add(operand.get().getType(),
        &operand == &parameter ? storage
                               : getOperandSharding(rule, from, index, mesh),
        getOperandSharding(rule, to, index, mesh));
  }
  for (auto [index, type] : llvm::enumerate(op->getResultTypes()))
    add(type, getResultSharding(rule, to, index, mesh),
        getResultSharding(rule, from, index, mesh));
  return seconds;
}

namespace {
struct ReadStoredRowsPass
    : heddle::impl::ReadStoredRowsPassBase<ReadStoredRowsPass> {
  using Base::Base;

  void runOnOperation() override {
    auto found = ReshardSequences::ofGlobalProgram(getOperation(), cluster);
    if (failed(found))
      return signalPassFailure();
    if (!*found)
      return;
    ReshardSequences &sequences = **found;
    SymbolTableCollection tables;
    WalkResult status = getOperation().walk([&](WorkOpInterface op) {
      return WalkResult(change(op, tables, sequences));
    });
    if (status.wasInterrupted())
      signalPassFailure();
  }

private:
  LogicalResult change(WorkOpInterface op, SymbolTableCollection &tables,
                       ReshardSequences &sequences) {
    MeshRef mesh = sequences.getMesh();
    for (OpOperand &operand : op->getOpOperands()) {
      auto load = operand.get().getDefiningOp<LoadOp>();
      // An op that reads more than the parameter's bytes reads all of it.
      if (!load || !hasFactors(op) ||
          op.getWork().bytesRead >= getBytes(load.getType()))
        continue;
      ShardingAttr storage = getStorage(load, tables);
      if (!storage || storage.isPartial())
        continue;
      ShardingRule rule = getRule(op);
      FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh.mesh);
      if (failed(axes))
        return failure();
      std::optional<FactorAxes> asStored =
          readAsStored(rule, *axes, operand.getOperandNumber(), storage, mesh);
      auto seconds = [&](const FactorAxes &to) {
        return getSeconds(op, rule, *axes, to, operand, storage, mesh,
                          sequences);
      };
      if (asStored && seconds(*asStored) < seconds(*axes))
        writeFactorAxes(op, rule, *asStored);
    }
    return success();
  }
};
} // namespace
