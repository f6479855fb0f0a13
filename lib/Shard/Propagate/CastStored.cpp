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

namespace {
struct CastStoredPass : heddle::impl::CastStoredPassBase<CastStoredPass> {
  using Base::Base;

  void runOnOperation() override {
    MeshRef mesh = getMesh(getOperation());
    if (!mesh)
      return;
    SymbolTableCollection tables;
    getOperation().walk([&](Operation *op) {
      LoadOp load = getNarrowedLoad(op);
      if (!load || !hasFactors(op))
        return;
      ShardingAttr storage = getStorage(load, tables);
      if (!storage || storage.isPartial())
        return;
      ShardingRule rule = getRule(op);
      FactorAxes axes = splitAs(storage, rule);
      if (isRepresentable(rule, axes, mesh.mesh) &&
          getOperandSharding(rule, axes, 0, mesh) == storage)
        writeFactorAxes(op, rule, axes);
    });
  }
};
} // namespace
