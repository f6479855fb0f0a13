//===- Passes.h - Passes that order a device's program ----------*- C++ -*-===//

#ifndef HEDDLE_SCHEDULE_PASSES_H
#define HEDDLE_SCHEDULE_PASSES_H

#include "heddle/Cost/ClusterChoice.h"
#include "heddle/Support/ProgramOrder.h"
#include "heddle/Support/Recompute.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

// The measured times of ops, as f64 attributes (heddle-order-program).

/// The seconds of a computation. Without it, a computation takes the time of
/// the cluster's roofline.
inline constexpr llvm::StringLiteral kSecondsAttrName = "schedule.seconds";
/// The factor by which a computation takes longer while a collective of load 1
/// is under way; 1 without it.
inline constexpr llvm::StringLiteral kSlowdownAttrName = "schedule.slowdown";
/// The time of a collective as a multiple of its time by the latency and the
/// bandwidth of the cluster's links; 1 without it.
inline constexpr llvm::StringLiteral kLinkFactorAttrName =
    "schedule.link_factor";
/// How much a collective slows computations down, from 0 (not at all) to 1 (by
/// their slowdown); 1 without it.
inline constexpr llvm::StringLiteral kLoadAttrName = "schedule.load";

/// On a module that stands for a deeper one: the most bytes, i64, that
/// heddle-recompute expects to be live in the deeper one, before ops are fused.
inline constexpr llvm::StringLiteral kLiveBytesAttrName = "schedule.live_bytes";

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
