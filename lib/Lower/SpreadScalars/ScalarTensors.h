//===- ScalarTensors.h - Scalars computed from tensors, as tensors --------===//

#ifndef HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H
#define HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle::lower {

/// A device's program has tensors alone: a number that is computed from one
/// (tensor.extract, and arithmetic on it) is a tensor without dimensions, of
/// i64 where the number is an index.
class ScalarTensors {
public:
  /// The tensor of rank 0 that holds the scalar, computed where the scalar is.
  /// Null if it comes from something else than tensors and constants.
  mlir::Value get(mlir::Value scalar);
  /// Where get() found none: the op that the scalar comes from and that has no
  /// form on tensors; null for an argument of a block.
  mlir::Operation *findUnknown(mlir::Value scalar) const;

private:
  /// Of the result of an op whose operands have tensors, if they can.
  mlir::Value make(mlir::Operation *op, mlir::Type type);
  mlir::Value makeExtract(mlir::tensor::ExtractOp op);
  mlir::Value lookup(mlir::Value scalar) const;
  /// Null for scalars that have no tensor.
  llvm::DenseMap<mlir::Value, mlir::Value> tensors;
};

/// The type of the tensor that stands for a value in a device's program: a
/// tensor's own, or one without dimensions. Null for any other value.
mlir::RankedTensorType getProgramType(mlir::Type type);
/// The tensor that stands for a value, and the value that it stands for. Where
/// the value is a scalar, these are ops that spreadScalars removes.
mlir::Value toProgramTensor(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value value);
mlir::Value fromProgramTensor(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value tensor, mlir::Type type);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H
