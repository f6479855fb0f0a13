//===- Bytes.h - Bytes of tensors in memory ---------------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_BYTES_H
#define HEDDLE_SUPPORT_BYTES_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MathExtras.h"

namespace heddle {

/// The bytes of one element in memory, rounded up to whole bytes: 8 for an
/// index, and 0 for a type that cannot lie in memory.
inline int64_t getElementBytes(mlir::Type element) {
  if (auto complex = mlir::dyn_cast<mlir::ComplexType>(element))
    return 2 * getElementBytes(complex.getElementType());
  if (element.isIndex())
    return mlir::IndexType::kInternalStorageBitWidth / 8;
  return element.isIntOrFloat()
             ? llvm::divideCeil(element.getIntOrFloatBitWidth(), 8)
             : 0;
}

/// The bytes of a tensor of static shape; 0 for any other type.
inline int64_t getBytes(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return 0;
  return tensor.getNumElements() * getElementBytes(tensor.getElementType());
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_BYTES_H
