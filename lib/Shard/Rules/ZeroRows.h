//===- ZeroRows.h - Zeros beside the rows of a tensor -----------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_RULES_ZEROROWS_H
#define HEDDLE_LIB_SHARD_RULES_ZEROROWS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace heddle {

/// Makes zeros, of complex numbers, too, which MLIR's builder does not.
mlir::Value makeZeros(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::RankedTensorType type);

/// The value with zeros after its last row along `dim`, `size` rows in all.
mlir::Value padRows(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value value, int64_t dim, int64_t size);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_ZEROROWS_H
