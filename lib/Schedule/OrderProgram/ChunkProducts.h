//===- ChunkProducts.h - Products in row chunks -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_CHUNKPRODUCTS_H
#define HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_CHUNKPRODUCTS_H

#include "mlir/IR/Block.h"

namespace heddle {

/// Cuts each product whose result only an all-reduce reads into `chunks`
/// products of equally many rows, and the all-reduce in the same way. So the
/// first rows are summed while the next ones are computed. Chunks are slices of
/// one operand and of the result along their outermost dimensions; no element
/// is copied. A product stays whole if the outermost dimension of its result is
/// the outermost one of neither operand, or if `chunks` does not divide it.
/// Returns the number of products that were cut.
int64_t chunkProducts(mlir::Block &block, int64_t chunks);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_CHUNKPRODUCTS_H
