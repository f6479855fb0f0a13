//===- ScalarTensors.h - Tensors that represent scalars ---------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H
#define HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle::lower {

/// Replaces scalars that are computed from tensors (tensor.extract, and
/// arithmetic on its result) by tensors, because a device's program has only
/// tensors. Such a tensor has no dimensions. An index becomes i64.
class ScalarTensors {
public:
  /// Returns the tensor of rank 0 that holds the scalar, computed where the
  /// scalar is. Null if the scalar depends on more than constants, tensors and
  /// mappable ops.
  mlir::Value get(mlir::Value scalar);
  /// Returns the op that made get() fail, because it has no form on tensors.
  /// Null if a block's argument made get() fail.
  mlir::Operation *findUnknown(mlir::Value scalar) const;

private:
  /// Returns the tensor for the result of an op whose operands have tensors.
  /// Null if the op has no form on tensors.
  mlir::Value make(mlir::Operation *op, mlir::Type type);
  mlir::Value makeExtract(mlir::tensor::ExtractOp op);
  mlir::Value lookup(mlir::Value scalar) const;
  /// The tensor of each scalar visited; null if the scalar has none.
  llvm::DenseMap<mlir::Value, mlir::Value> tensors;
};

/// Returns the type that represents a value in a device's program: a tensor's
/// own type, or a type without dimensions for a scalar. Null for any other
/// value.
mlir::RankedTensorType getProgramType(mlir::Type type);
/// Converts between a value and the tensor that represents it. The ops built
/// for a scalar are removed by heddle-spread-scalars.
mlir::Value toProgramTensor(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value value);
mlir::Value fromProgramTensor(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value tensor, mlir::Type type);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_SPREADSCALARS_SCALARTENSORS_H
