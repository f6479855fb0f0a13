//===- StageTable.h - The attribute of a schedule of one's own --*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_STAGETABLE_H
#define HEDDLE_DIALECTS_HEDDLE_STAGETABLE_H

#include "llvm/ADT/StringRef.h"

namespace heddle {

/// An attribute of the module: the text of a pipeline's schedule, in place of
/// the schedule that `heddle.pipeline` names.
inline constexpr llvm::StringLiteral kStageTableAttrName = "heddle.stage_table";

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_STAGETABLE_H
