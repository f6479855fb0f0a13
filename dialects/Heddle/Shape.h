//===- Shape.h - The shape of a tensor --------------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_SHAPE_H
#define HEDDLE_DIALECTS_HEDDLE_SHAPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace heddle {

/// Returns the shape of a value, which must be a ranked tensor.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_SHAPE_H
