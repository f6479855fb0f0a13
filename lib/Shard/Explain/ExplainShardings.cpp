//===- ExplainShardings.cpp - Remarks on decisions of propagation ---------===//

#include "ShardingExplainer.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/Boundaries.h"

namespace heddle {
#define GEN_PASS_DEF_EXPLAINSHARDINGSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct ExplainShardingsPass
    : heddle::impl::ExplainShardingsPassBase<ExplainShardingsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<MeshRef> mesh = getMeshOfGlobalProgram(getOperation());
    if (failed(mesh))
      return signalPassFailure();
    if (!*mesh)
      return;
    FailureOr<PartialAssignment> given = readAssignment(getOperation(), *mesh);
    if (failed(given))
      return signalPassFailure();
    FailureOr<ShardingAssignment> assignment =
        propagateShardings(getOperation(), *mesh, *given);
    if (failed(assignment))
      return signalPassFailure();
    auto sequences = ReshardSequences::create(getOperation(), *mesh, cluster);
    if (failed(sequences))
      return signalPassFailure();
    ShardingExplainer explainer(*assignment, *mesh);
    explainer.reportConflicts(*sequences);
    for (auto function : getOperation().getOps<func::FuncOp>())
      explainer.explain(function);
    markAllAnalysesPreserved();
  }
};
} // namespace
