//===- SmallWeights.h - Small weights and gradients -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_COLLECTIVES_SMALLWEIGHTS_H
#define HEDDLE_LIB_SHARD_COLLECTIVES_SMALLWEIGHTS_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseSet.h"

namespace heddle {

/// Returns the reductions of a program's block for which only the end of the
/// program waits. Their results only reach stores and results of the program,
/// through ops that compute little. Examples are the sums of gradients, which
/// the optimizer reads, and the sum of the loss.
llvm::DenseSet<mlir::Operation *> findGradientReductions(mlir::Block &block);

/// Combines all-gathers of values that depend on variables alone. A bucket is
/// gathered where its first member stands, so the results of its last member
/// live longer: at most `bucketBytes` of results are in a bucket. Results of
/// more than `maxBytes` are gathered alone. Loads do not move past stores to
/// their variables.
void combineWeightGathers(mlir::Block &block, int64_t maxBytes,
                          int64_t bucketBytes);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_COLLECTIVES_SMALLWEIGHTS_H
