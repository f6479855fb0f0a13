//===- ChunkProducts.h - Products in row chunks -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_CHUNKPRODUCTS_H
#define HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_CHUNKPRODUCTS_H

#include "mlir/IR/Block.h"

namespace heddle {

/// Cuts products whose results only go to an all-reduce into `chunks` products
/// of some rows each, and the all-reduce alike. So the first rows are summed
/// while the next ones are computed. Chunks are slices of the operand and of
/// the result along their outermost dimension; no element is copied. A product
/// stays whole if its outermost dimension is not that of one operand, or does
/// not divide. Returns the number of products that were cut.
int64_t chunkProducts(mlir::Block &block, int64_t chunks);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_CHUNKPRODUCTS_H
