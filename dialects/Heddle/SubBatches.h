//===- SubBatches.h - The attribute of sub-batches --------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_SUBBATCHES_H
#define HEDDLE_DIALECTS_HEDDLE_SUBBATCHES_H

#include "llvm/ADT/StringRef.h"

namespace heddle {

/// An attribute of the module: the number of parts in which the batch runs.
inline constexpr llvm::StringLiteral kSubBatchesAttrName = "heddle.sub_batches";

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_SUBBATCHES_H
