//===- ZeroRows.h - Zeros beside the rows of a tensor -----------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_RULES_ZEROROWS_H
#define HEDDLE_LIB_SHARD_RULES_ZEROROWS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace heddle {

/// Creates a constant of zeros. Unlike OpBuilder::getZeroAttr, supports complex
/// numbers.
mlir::Value makeZeros(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::RankedTensorType type);

/// Returns `value` extended by rows of zeros to `size` rows along `dim`.
mlir::Value padRows(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value value, int64_t dim, int64_t size);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_ZEROROWS_H
