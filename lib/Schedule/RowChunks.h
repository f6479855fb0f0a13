//===- RowChunks.h - Chunks along the outermost dimension -------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_ROWCHUNKS_H
#define HEDDLE_LIB_SCHEDULE_ROWCHUNKS_H

#include "dialects/Heddle/Heddle.h"

namespace heddle {

/// Returns chunk number `chunk` of a tensor, as a slice. No element is copied.
mlir::Value getRows(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value whole, int64_t chunks, int64_t chunk);

/// Returns the tensor whose chunks these are.
mlir::Value joinRows(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::ValueRange rows);

/// Returns the operand whose outermost dimension is that of the product's
/// result, if the product can run in `chunks` chunks of rows. It must not
/// accumulate, `chunks` must divide the rows, only one operand may have the
/// rows, and no bias may run along them.
std::optional<unsigned> getRowOperand(ContractOp product, int64_t chunks);

/// Clones an op for a chunk: with another operand, and a chunk of each result.
mlir::Operation *cloneForRows(mlir::OpBuilder &builder, mlir::Operation *op,
                              unsigned operand, mlir::Value rows,
                              int64_t chunks);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_ROWCHUNKS_H
