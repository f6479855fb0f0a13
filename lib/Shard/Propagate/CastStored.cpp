//===- CastStored.cpp - Casts parameters where they are stored ------------===//

#include "ReadAsStored.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/StatedFactors.h"

namespace heddle {
#define GEN_PASS_DEF_CASTSTOREDPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

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
      std::optional<FactorAxes> axes =
          readAsStored(rule, FactorAxes(rule.factors.size()), 0, storage, mesh);
      if (axes &&
          countParts(storage, mesh) >
              countParts(getOperandSharding(rule, *used, 0, mesh), mesh))
        writeFactorAxes(op, rule, *axes);
      return WalkResult::advance();
    });
    if (status.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
