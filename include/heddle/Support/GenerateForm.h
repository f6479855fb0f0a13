//===- GenerateForm.h - tensor.generate with explicit loops -----*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_GENERATEFORM_H
#define HEDDLE_SUPPORT_GENERATEFORM_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

namespace heddle {

/// Builds a linalg.generic without inputs that computes the elements of
/// `generate`. `type` is its static result type: that of `generate`, or that of
/// one device's part.
inline mlir::linalg::GenericOp toStructured(mlir::OpBuilder &builder,
                                            mlir::tensor::GenerateOp generate,
                                            mlir::RankedTensorType type) {
  using namespace mlir;
  Location loc = generate.getLoc();
  Value empty = builder.create<tensor::EmptyOp>(loc, type.getShape(),
                                                type.getElementType());
  SmallVector<utils::IteratorType> parallel(type.getRank(),
                                            utils::IteratorType::parallel);
  return builder.create<linalg::GenericOp>(
      loc, type, ValueRange(), empty,
      ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(type.getRank())},
      parallel, [&](OpBuilder &b, Location at, ValueRange) {
        IRMapping mapping;
        Block &body = generate.getRegion().front();
        for (BlockArgument argument : body.getArguments())
          mapping.map(argument,
                      b.create<linalg::IndexOp>(at, argument.getArgNumber()));
        for (Operation &inner : body.without_terminator())
          b.clone(inner, mapping);
        b.create<linalg::YieldOp>(
            at, mapping.lookupOrDefault(body.getTerminator()->getOperand(0)));
      });
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_GENERATEFORM_H
