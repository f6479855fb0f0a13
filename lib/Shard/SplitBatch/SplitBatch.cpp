//===- SplitBatch.cpp - Runs a program on parts of its batch --------------===//

#include "../Propagate/RepeatConstants.h"
#include "FunctionParts.h"
#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/Shard/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_SPLITBATCHPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct SplitBatchPass : heddle::impl::SplitBatchPassBase<SplitBatchPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    BatchParts parts = getParts(module);
    module->removeAttr(kSubBatchesAttrName);
    BatchFactors factors;
    if (parts.count <= 1) {
      // Nothing is split, but a stated size must be that of the batch.
      if (!parts.sizes.empty() && failed(factors.findBatch(module, parts)))
        signalPassFailure();
      return;
    }
    // One use of a constant should not decide whether another one is split.
    repeatConstants(module);
    if (failed(factors.find(module, parts)))
      return signalPassFailure();
    SmallVector<FunctionParts::Join> joins;
    for (func::FuncOp function : factors.getFunctions()) {
      FunctionParts written(function, factors);
      if (failed(written.run()))
        return signalPassFailure();
      llvm::append_range(joins, written.getJoins());
    }
    if (joins.empty())
      return;
    auto diag = emitWarning(joins.front().loc)
                << joins.front().description
                << " needs the whole batch: all sub-batches wait for each "
                   "other before it";
    if (joins.size() > 1)
      diag << ", and before " << joins.size() - 1 << " others";
  }

private:
  /// Returns the parts that the option states, or else the module.
  BatchParts getParts(ModuleOp module) {
    Attribute stated = module->getAttr(kSubBatchesAttrName);
    if (subBatches != 0)
      return {subBatches, {}};
    if (auto sizes = dyn_cast_or_null<DenseI64ArrayAttr>(stated))
      return {sizes.size(), SmallVector<int64_t>(sizes.asArrayRef())};
    if (auto count = dyn_cast_or_null<IntegerAttr>(stated))
      return {count.getInt(), {}};
    return {};
  }
};
} // namespace
