//===- CastStored.cpp - Casts parameters where they are stored ------------===//

#include "dialects/Heddle/Heddle.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Sharding/StatedFactors.h"

namespace heddle {
#define GEN_PASS_DEF_CASTSTOREDPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns the axes of the factors of an elementwise op with one operand that
/// is split as `storage`.
static FactorAxes splitAs(ShardingAttr storage, const ShardingRule &rule) {
  FactorAxes axes(rule.factors.size());
  for (auto [factors, stored] :
       llvm::zip(rule.operands.front(), getDimensions(storage)))
    if (factors.size() == 1)
      axes[factors.front()] = stored;
  return axes;
}

/// Returns the number of parts of a tensor.
static int64_t countParts(ShardingAttr sharding, MeshRef mesh) {
  int64_t parts = 1;
  for (const Axes &axes : getDimensions(sharding))
    for (StringAttr axis : axes)
      parts *= mesh.mesh.getAxisSize(axis);
  return parts;
}

namespace {
struct CastStoredPass : heddle::impl::CastStoredPassBase<CastStoredPass> {
  using Base::Base;

  void runOnOperation() override {
    MeshRef mesh = getMesh(getOperation());
    if (!mesh)
      return;
    SymbolTableCollection tables;
    WalkResult status = getOperation().walk([&](Operation *op) {
      LoadOp load = getNarrowedLoad(op);
      // A pin decides where its value is split.
      if (!load || !hasFactors(op) || op->hasAttr(kPinAttrName) ||
          load->hasAttr(kPinAttrName))
        return WalkResult::advance();
      ShardingAttr storage = getStorage(load, tables);
      if (!storage || storage.isPartial())
        return WalkResult::advance();
      ShardingRule rule = getRule(op);
      FailureOr<FactorAxes> used = readFactorAxes(op, rule, mesh.mesh);
      if (failed(used))
        return WalkResult::interrupt();
      FactorAxes axes = splitAs(storage, rule);
      if (countParts(storage, mesh) >
              countParts(getOperandSharding(rule, *used, 0, mesh), mesh) &&
          isRepresentable(rule, axes, mesh.mesh) &&
          getOperandSharding(rule, axes, 0, mesh) == storage)
        writeFactorAxes(op, rule, axes);
      return WalkResult::advance();
    });
    if (status.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
