//===- Localize.cpp - Turns the global program into one device's ----------===//

#include "FunctionLocalizer.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle {
#define GEN_PASS_DEF_LOCALIZEPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct LocalizePass : heddle::impl::LocalizePassBase<LocalizePass> {
  using Base::Base;

  void runOnOperation() override {
    auto found = ReshardSequences::ofGlobalProgram(getOperation(), cluster);
    if (failed(found))
      return signalPassFailure();
    if (!*found)
      return;
    ReshardSequences &sequences = **found;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(FunctionLocalizer(function, sequences.getMesh(), sequences,
                                   remarkBytes)
                     .run()))
        return signalPassFailure();
  }
};
} // namespace
