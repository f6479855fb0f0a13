//===- LoopGradients.h - Backward through a loop ----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_AUTODIFF_LOOPGRADIENTS_H
#define HEDDLE_LIB_AUTODIFF_LOOPGRADIENTS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace heddle {

/// Returns whether the value is floating-point or a tensor of such elements.
bool isFloat(mlir::Value value);

/// Returns the values that the op uses: its operands, and what its regions use
/// of the outside.
llvm::SmallVector<mlir::Value> getUsedValues(mlir::Operation &op);

/// Builds the gradients of the values that the loop uses and for which
/// `isWanted` holds, from those of its results (null: zero), and gives each to
/// `add`. Values are given more than once if they are used in several ways.
///
/// Replaces the loop by one that also stores the carried values at the start of
/// each iteration; the original stays, without uses. A second loop goes
/// backward: it computes an iteration again from the stored values, and its
/// gradients. Emits an error if the number of iterations is not known.
mlir::LogicalResult buildLoopGradients(
    mlir::OpBuilder &builder, mlir::scf::ForOp loop,
    llvm::ArrayRef<mlir::Value> resultGradients,
    llvm::function_ref<bool(mlir::Value)> isWanted,
    llvm::function_ref<void(mlir::Value, mlir::Value gradient)> add);

} // namespace heddle

#endif // HEDDLE_LIB_AUTODIFF_LOOPGRADIENTS_H
