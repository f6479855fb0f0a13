//===- Autodiff.h - Reverse-mode differentiation ----------------*- C++ -*-===//
//
// Reverse-mode automatic differentiation of tensor programs whose only control
// flow is loops of known length. Walks backward over the ops of a block. Each
// op builds its vector-Jacobian product (DifferentiableOpInterface); a loop
// gets one that goes backward. If a value has several uses, their gradients are
// added. The program is global; shardings play no part.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_AUTODIFF_AUTODIFF_H
#define HEDDLE_AUTODIFF_AUTODIFF_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectRegistry.h"

namespace heddle {

/// Attaches DifferentiableOpInterface to upstream ops.
void registerDifferentiableModels(mlir::DialectRegistry &registry);

/// Attaches PrecisionOpInterface to upstream ops.
void registerPrecisionModels(mlir::DialectRegistry &registry);

/// A value of the program and its gradient, from which the gradients of other
/// values are computed.
struct Seed {
  mlir::Value value;
  mlir::Value gradient; ///< of the value's type
};

/// Builds the gradients of `wrt` (results of ops of `block`) from those of the
/// seeds' values, which are of the same block. A null result means that no seed
/// depends on the value. New ops go to the builder's insertion point, which
/// must come after every op of the program. They are built in reverse program
/// order, so sums have a deterministic order. Some of the new ops may be dead.
/// A loop (`scf.for`) is replaced by a loop that also stores the values that it
/// carries. The old loop is erased, so its results must not be used afterwards,
/// even if they are seeds' values. The loop's body is repeated in the backward
/// loop, so it must not have side effects or load variables. Emits an error on
/// an op without a gradient between `wrt` and the seeds.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildGradients(mlir::OpBuilder &builder, mlir::Block &block,
               llvm::ArrayRef<Seed> seeds, llvm::ArrayRef<mlir::Value> wrt);

/// Builds the sum of two gradients of one value; either may be null. If one is
/// the gradient of an embedding, it starts from the other gradient, which saves
/// a sum of the table's size.
mlir::Value addGradients(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value a, mlir::Value b);

/// Builds a tensor (or number) of `type` whose elements are all `value`.
mlir::Value createSplat(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Type type, double value);

} // namespace heddle

#endif // HEDDLE_AUTODIFF_AUTODIFF_H
