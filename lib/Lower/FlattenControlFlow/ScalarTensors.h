//===- ScalarTensors.h - Scalars computed from tensors, as tensors --------===//

#ifndef HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_SCALARTENSORS_H
#define HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_SCALARTENSORS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle::lower {

/// A device's program has tensors alone: a number that is computed from one
/// (tensor.extract, and arithmetic on it) is a tensor without dimensions.
class ScalarTensors {
public:
  /// The tensor of rank 0 that holds the scalar, computed where the scalar is.
  /// Null if it comes from something else than tensors and constants.
  mlir::Value get(mlir::Value scalar);

private:
  /// Of the result of an op whose operands have tensors, if they can.
  mlir::Value make(mlir::Operation *op, mlir::Type type);
  mlir::Value lookup(mlir::Value scalar) const;
  /// Null for scalars that have no tensor.
  llvm::DenseMap<mlir::Value, mlir::Value> tensors;
};

/// Makes numbers tensors without dimensions: arguments and results of the
/// function; scalars that are spread over a tensor (a select between tensors,
/// tensor.splat, tensor.from_elements, linalg.fill), where they are no
/// constants; scalar operands of structured ops and what their bodies take from
/// around them. An error on an op whose scalar is no tensor's.
mlir::LogicalResult spreadScalars(mlir::func::FuncOp function);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_SCALARTENSORS_H
