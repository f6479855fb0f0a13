//===- PropagateShardings.cpp - Completes the assignment ------------------===//

#include "WriteAssignment.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/Boundaries.h"

namespace heddle {
#define GEN_PASS_DEF_PROPAGATESHARDINGSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct PropagateShardingsPass
    : heddle::impl::PropagateShardingsPassBase<PropagateShardingsPass> {
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
    writeAssignment(getOperation(), *mesh, *assignment);
  }
};
} // namespace
