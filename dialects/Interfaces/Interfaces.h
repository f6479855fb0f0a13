//===- Interfaces.h - The op interfaces of Heddle ---------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_INTERFACES_INTERFACES_H
#define HEDDLE_DIALECTS_INTERFACES_INTERFACES_H

#include "dialects/Interfaces/OpTraits.h"
#include "dialects/Interfaces/ShardingRule.h"
#include "mlir/IR/OpDefinition.h"

namespace heddle {

/// The cost of one execution of an op, independent of the machine.
struct Work {
  int64_t flops = 0;
  int64_t bytesRead = 0;
  int64_t bytesWritten = 0;
};

/// How an op chooses its types in mixed precision, where products take narrow
/// numbers (bf16).
enum class Precision {
  Narrow,          ///< narrow operands and results; sums inside are f32
  FollowsOperands, ///< narrow if all its operands are
  ReadsNarrow,     ///< reads narrow operands, computes and gives f32
};

} // namespace heddle

#include "dialects/Interfaces/ShardingRuleOpInterface.h.inc"

#include "dialects/Interfaces/DifferentiableOpInterface.h.inc"

#include "dialects/Interfaces/WorkOpInterface.h.inc"

#include "dialects/Interfaces/PrecisionOpInterface.h.inc"

#endif // HEDDLE_DIALECTS_INTERFACES_INTERFACES_H
