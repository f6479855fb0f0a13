//===- Rows.h - Rows of one dimension of a tensor ---------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_ROWS_H
#define HEDDLE_SUPPORT_ROWS_H

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {

namespace detail {
/// The offsets, sizes and strides of a slice that has the shape of `rows` and
/// begins at `offset` along `dim`.
struct RowsPlace {
  RowsPlace(mlir::OpBuilder &builder, mlir::RankedTensorType rows, int64_t dim,
            mlir::OpFoldResult offset)
      : offsets(rows.getRank(), builder.getIndexAttr(0)),
        sizes(mlir::getAsIndexOpFoldResult(builder.getContext(),
                                           rows.getShape())),
        strides(rows.getRank(), builder.getIndexAttr(1)) {
    offsets[dim] = offset;
  }
  llvm::SmallVector<mlir::OpFoldResult> offsets, sizes, strides;
};
} // namespace detail

/// Extracts the rows [offset, offset + length) along `dim`. The other
/// dimensions stay whole.
inline mlir::Value extractRows(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value from, int64_t dim,
                               mlir::OpFoldResult offset, int64_t length) {
  auto type = mlir::cast<mlir::RankedTensorType>(from.getType());
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[dim] = length;
  mlir::RankedTensorType rows = type.clone(shape);
  detail::RowsPlace place(builder, rows, dim, offset);
  return builder.create<mlir::tensor::ExtractSliceOp>(
      loc, rows, from, place.offsets, place.sizes, place.strides);
}

/// Replaces the rows of `into` from `offset` on along `dim` by `rows`.
inline mlir::Value insertRows(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value rows, mlir::Value into, int64_t dim,
                              mlir::OpFoldResult offset) {
  detail::RowsPlace place(
      builder, mlir::cast<mlir::RankedTensorType>(rows.getType()), dim, offset);
  return builder.create<mlir::tensor::InsertSliceOp>(
      loc, rows, into, place.offsets, place.sizes, place.strides);
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_ROWS_H
