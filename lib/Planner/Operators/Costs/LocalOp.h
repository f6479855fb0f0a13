//===- LocalOp.h - Communication inside of an op ----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_COSTS_LOCALOP_H
#define HEDDLE_LIB_PLANNER_OPERATORS_COSTS_LOCALOP_H

#include "../Program/Program.h"

namespace heddle {

/// Returns whether localizing an op with these axes adds communication: the
/// local form combines partial results, passes parts around a ring or fetches
/// the rows of a window.
bool hasExchange(const OpClass &made, const FactorAxes &axes);

/// Localizes a copy of the op, with operands in the shardings that it needs.
/// Calls `body` for each resulting op that works or communicates. Fails,
/// without a diagnostic, if the op cannot be localized with these axes.
mlir::LogicalResult
forEachLocalOp(const OpClass &made, const FactorAxes &axes, MeshRef mesh,
               llvm::function_ref<void(mlir::Operation *)> body);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_COSTS_LOCALOP_H
