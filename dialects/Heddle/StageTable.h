//===- StageTable.h - Attributes of a pipeline's schedule -------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_STAGETABLE_H
#define HEDDLE_DIALECTS_HEDDLE_STAGETABLE_H

#include "llvm/ADT/StringRef.h"

namespace heddle {

/// An attribute of the module: the text of a pipeline's schedule, in place of
/// the schedule that `heddle.pipeline` names.
inline constexpr llvm::StringLiteral kStageTableAttrName = "heddle.stage_table";

/// A unit attribute of the module: a device of the pipeline begins its next
/// step when its own part of this one is done. Nothing that a step stores
/// depends on a sum over all stages.
inline constexpr llvm::StringLiteral kNoStepBarrierAttrName =
    "heddle.no_step_barrier";

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_STAGETABLE_H
