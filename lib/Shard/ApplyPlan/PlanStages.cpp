//===- PlanStages.cpp - The stages of a plan's pipeline -------------------===//

#include "PlanApplier.h"

using namespace mlir;
using namespace heddle;

/// Finds the stage of every op that a glob of "stages" names. Of several globs,
/// the one with the most literal characters decides.
LogicalResult PlanApplier::assignStages() {
  int64_t devices = plan.getAxisSize(kPipelineAxis);
  if (plan.numStages == 0)
    return success();
  if (devices < 2)
    return error(plan.stagesPosition, "$.mesh")
           << "expected at least 2 devices along \"pp\", over which the stages "
              "of a pipeline lie, got "
           << devices << ": leave out \"stages\" and \"pipeline\", or use more";
  if (plan.numStages % devices != 0)
    return error(plan.stagesPosition, "$.stages")
           << "expected as many stages for each of the " << devices
           << " devices along \"pp\", got " << plan.numStages << " stages";
  for (const PlanStage &stage : plan.stages)
    for (const std::string &glob : stage.globs)
      if (failed(findFactors("stages", glob, stage.position)))
        return failure();
  for (const PlannedOp &planned : ops) {
    StringRef name = getOpName(planned.op);
    std::optional<int64_t> found;
    unsigned literals = 0;
    bool isTied = false;
    for (auto [i, stage] : llvm::enumerate(plan.stages))
      for (const std::string &glob : stage.globs) {
        if (!matchesGlob(glob, name))
          continue;
        unsigned own = getGlobSpecificity(glob);
        if (!found || own > literals) {
          found = i;
          literals = own;
          isTied = false;
        } else if (own == literals && *found != int64_t(i)) {
          isTied = true;
        }
      }
    if (isTied)
      return error(plan.stagesPosition, "$.stages")
             << "two globs that are as specific give \"" << name
             << "\" to different stages";
    if (found)
      stages.push_back({planned.op, *found});
  }
  return success();
}
