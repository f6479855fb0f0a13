//===- Zeros.h - Tensors that are known to be zero --------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_ZEROS_H
#define HEDDLE_SUPPORT_ZEROS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Matchers.h"

namespace heddle {

/// Whether every element is known to be zero: a zero constant, or a linalg.fill
/// with one.
inline bool isZeros(mlir::Value value) {
  if (auto fill = value.getDefiningOp<mlir::linalg::FillOp>())
    value = fill.getInputs()[0];
  return mlir::matchPattern(value, mlir::m_AnyZeroFloat()) ||
         mlir::matchPattern(value, mlir::m_Zero());
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_ZEROS_H
