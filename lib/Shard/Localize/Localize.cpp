//===- Localize.cpp - Turns the global program into one device's ----------===//

#include "FunctionLocalizer.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/Boundaries.h"
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
    FailureOr<MeshRef> mesh = getMeshOfGlobalProgram(getOperation());
    if (failed(mesh))
      return signalPassFailure();
    if (!*mesh)
      return;
    auto sequences = ReshardSequences::create(getOperation(), *mesh, cluster);
    if (failed(sequences))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(FunctionLocalizer(function, *mesh, *sequences, remarkBytes)
                     .run()))
        return signalPassFailure();
  }
};
} // namespace
