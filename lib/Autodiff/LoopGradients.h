//===- LoopGradients.h - Backward through a loop ----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_AUTODIFF_LOOPGRADIENTS_H
#define HEDDLE_LIB_AUTODIFF_LOOPGRADIENTS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace heddle {

/// Returns whether the value is floating-point or a tensor of such elements.
bool isFloat(mlir::Value value);

/// Returns the values that the op uses: its operands, and the values from
/// outside that its regions use.
llvm::SmallVector<mlir::Value> getUsedValues(mlir::Operation &op);

/// Builds the gradients of the values that the loop uses and for which
/// `isWanted` holds. Starts from the gradients of the loop's results (null:
/// zero). Gives each gradient to `add`. A value that is used in several ways
/// gets several gradients.
///
/// Replaces the loop by one that also stores the carried values at the start of
/// each iteration. The original loop stays, without uses. A second loop runs
/// backward. For each iteration it computes the values again from the stored
/// ones, and then the gradients. Emits an error if the number of iterations is
/// not known.
mlir::LogicalResult buildLoopGradients(
    mlir::OpBuilder &builder, mlir::scf::ForOp loop,
    llvm::ArrayRef<mlir::Value> resultGradients,
    llvm::function_ref<bool(mlir::Value)> isWanted,
    llvm::function_ref<void(mlir::Value, mlir::Value gradient)> add);

} // namespace heddle

#endif // HEDDLE_LIB_AUTODIFF_LOOPGRADIENTS_H
