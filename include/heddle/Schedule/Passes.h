//===- Passes.h - Passes that order a device's program ----------*- C++ -*-===//

#ifndef HEDDLE_SCHEDULE_PASSES_H
#define HEDDLE_SCHEDULE_PASSES_H

#include "heddle/Cost/ClusterChoice.h"
#include "heddle/Support/ProgramOrder.h"
#include "heddle/Support/Recompute.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

/// An f64 attribute: the seconds that the op takes (heddle-order-program). An
/// op without it takes the time of the cluster's roofline.
inline constexpr llvm::StringLiteral kSecondsAttrName = "schedule.seconds";

/// The places of a collective's start and wait. Both lie between the op that
/// computes its operand and the first op that reads its result.
enum class StartOrder {
  Earliest, ///< starts right behind the operand, waits before the first reader
  Latest,   ///< starts and waits right before the first reader
  Random,   ///< starts and waits anywhere between the two ops
};

#define GEN_PASS_DECL
#include "heddle/Schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Schedule/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_SCHEDULE_PASSES_H
