//===- Dimensions.h - Dimensions split and merged ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_COLLECTIVES_DIMENSIONS_H
#define HEDDLE_LIB_SHARD_COLLECTIVES_DIMENSIONS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace heddle {

/// Returns the type with another size of dimension `dim`.
mlir::RankedTensorType withSize(mlir::RankedTensorType type, int64_t dim,
                                int64_t size);

/// Returns `value` with dimension `dim` split into dimensions of these sizes.
mlir::Value splitDimension(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Value value, int64_t dim,
                           llvm::ArrayRef<int64_t> sizes);

/// Returns `value` with `count` dimensions, starting at `dim`, merged into one.
mlir::Value mergeDimensions(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value value, int64_t dim, int64_t count);

/// Returns `value` with dimension `from` moved to position `to`. The result is
/// a reshape if no element moves in memory: dimension `from`, or all dimensions
/// that it passes, have size 1.
mlir::Value moveDimension(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value value, int64_t from, int64_t to);

/// Returns `value` padded with zeros to `size` rows along `dim`. If the zeros
/// lie behind `value` in memory, the result is a concatenation, so that `value`
/// can be computed in its part of the result.
mlir::Value padEnd(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value value, int64_t dim, int64_t size);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_COLLECTIVES_DIMENSIONS_H
