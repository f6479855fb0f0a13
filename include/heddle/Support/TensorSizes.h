//===- TensorSizes.h - Tensors that are too large ---------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_TENSORSIZES_H
#define HEDDLE_SUPPORT_TENSORSIZES_H

#include "heddle/Support/Bytes.h"
#include "mlir/IR/Operation.h"

namespace heddle {

/// 64 TiB. A larger tensor is surely a mistake, and sums over all tensors of a
/// program must fit into 64 bits.
constexpr int64_t kMaxTensorBytes = int64_t(1) << 46;

/// Whether a tensor of static shape has at most kMaxTensorBytes; true for any
/// other type.
inline bool isOfPossibleSize(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      llvm::is_contained(tensor.getShape(), 0))
    return true;
  int64_t bytes =
      std::max<int64_t>(getElementBytes(tensor.getElementType()), 1);
  for (int64_t size : tensor.getShape()) {
    if (size > kMaxTensorBytes / bytes)
      return false;
    bytes *= size;
  }
  return true;
}

/// Fails at the first op with a result, block argument or declared type that is
/// too large. Must run before any pass that counts elements.
inline mlir::LogicalResult verifyTensorSizes(mlir::Operation *root) {
  auto check = [](mlir::Operation *op, mlir::Type type) {
    if (isOfPossibleSize(type))
      return mlir::WalkResult::advance();
    op->emitOpError() << "expected tensors of at most 2^46 bytes, got " << type
                      << ": choose smaller sizes";
    return mlir::WalkResult::interrupt();
  };
  mlir::WalkResult walked = root->walk([&](mlir::Operation *op) {
    for (mlir::Type type : op->getResultTypes())
      if (check(op, type).wasInterrupted())
        return mlir::WalkResult::interrupt();
    for (mlir::NamedAttribute attribute : op->getAttrs())
      if (auto type = mlir::dyn_cast<mlir::TypeAttr>(attribute.getValue()))
        if (check(op, type.getValue()).wasInterrupted())
          return mlir::WalkResult::interrupt();
    for (mlir::Region &region : op->getRegions())
      for (mlir::BlockArgument argument : region.getArguments())
        if (check(op, argument.getType()).wasInterrupted())
          return mlir::WalkResult::interrupt();
    return mlir::WalkResult::advance();
  });
  return mlir::failure(walked.wasInterrupted());
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_TENSORSIZES_H
