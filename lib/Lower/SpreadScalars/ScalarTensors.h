//===- ScalarTensors.h - Tensors that represent scalars -------------------===//

#ifndef HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H
#define HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle::lower {

/// Makes tensors of scalars that are computed from tensors (tensor.extract, and
/// arithmetic on it), because a device's program has tensors alone. Such a
/// tensor has no dimensions; an index becomes i64.
class ScalarTensors {
public:
  /// The tensor of rank 0 that holds the scalar, computed where the scalar is.
  /// Null if the scalar depends on other ops than those on tensors and
  /// constants.
  mlir::Value get(mlir::Value scalar);
  /// The op that get() failed at, because it has no form on tensors; null if
  /// get() failed at a block's argument.
  mlir::Operation *findUnknown(mlir::Value scalar) const;

private:
  /// Makes the tensor for the result of an op whose operands have tensors; null
  /// if the op has no form on tensors.
  mlir::Value make(mlir::Operation *op, mlir::Type type);
  mlir::Value makeExtract(mlir::tensor::ExtractOp op);
  mlir::Value lookup(mlir::Value scalar) const;
  /// Null for scalars that have no tensor.
  llvm::DenseMap<mlir::Value, mlir::Value> tensors;
};

/// The type that represents a value in a device's program: a tensor's own type,
/// or a type without dimensions for a scalar. Null for any other value.
mlir::RankedTensorType getProgramType(mlir::Type type);
/// Converts between a value and the tensor that represents it. For a scalar,
/// this makes ops that spreadScalars removes.
mlir::Value toProgramTensor(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value value);
mlir::Value fromProgramTensor(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value tensor, mlir::Type type);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H
