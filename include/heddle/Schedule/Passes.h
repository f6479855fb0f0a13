//===- Passes.h - Passes that order a device's program ----------*- C++ -*-===//

#ifndef HEDDLE_SCHEDULE_PASSES_H
#define HEDDLE_SCHEDULE_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

/// Where a collective is started and waited for, between the op that makes its
/// operand and the first op that reads its result.
enum class StartOrder {
  Earliest, ///< starts behind the first, waits before the second
  Latest,   ///< both before the second
  Random,   ///< anywhere between
};

#define GEN_PASS_DECL
#include "heddle/Schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Schedule/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_SCHEDULE_PASSES_H
