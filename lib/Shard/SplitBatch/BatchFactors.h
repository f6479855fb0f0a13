//===- BatchFactors.h - Finds the ops that see the batch --------*- C++ -*-===//
//
// Finds the factor of each op that runs over the batch. Changes no IR.
//
// The batch is the first dimension of features and labels. To propagation, each
// of its samples is a device: the dimension is split over one axis that is as
// long as the batch. An op whose factor gets the axis runs on sub-batches along
// this factor, if its sharding rule allows it. Example with 4 samples of 16
// tokens: a heddle.contract [xh, hf -> xf] on 64 rows gets the axis for x, so
// 16 elements of x belong to each sample.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_SPLITBATCH_BATCHFACTORS_H
#define HEDDLE_LIB_SHARD_SPLITBATCH_BATCHFACTORS_H

#include "../SplitOperators/OpSlices.h"
#include "../SplitOperators/Slices.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <numeric>

namespace heddle {

/// The parts into which a batch is cut.
struct BatchParts {
  int64_t count = 1;
  /// The samples of each part. Empty: nearly equal, the larger parts first.
  llvm::SmallVector<int64_t> sizes;
};

/// A batch cut into parts.
struct Batch {
  int64_t size = 0; ///< in samples
  BatchParts parts;

  int64_t getNumParts() const { return parts.count; }
  int64_t getSize(int64_t part) const {
    return parts.sizes.empty() ? getCut().getSize(part) : parts.sizes[part];
  }
  int64_t getOffset(int64_t part) const {
    return parts.sizes.empty()
               ? getCut().getOffset(part)
               : std::accumulate(parts.sizes.begin(),
                                 parts.sizes.begin() + part, int64_t(0));
  }
  /// Returns how much of `size`, a multiple of the batch's size, belongs to one
  /// sample.
  int64_t getRows(int64_t size) const { return size / this->size; }
  /// Returns the type of one part of a tensor that is cut along `dim`; the type
  /// itself without a dimension.
  mlir::Type getPartType(mlir::Type type, std::optional<int64_t> dim,
                         int64_t part) const;

private:
  Cut getCut() const { return {0, size, parts.count}; }
};

/// An op's factor that runs over the batch.
struct BatchFactor {
  ShardingRule rule;
  unsigned factor = 0;

  const Factor &get() const { return rule.factors[factor]; }
  std::optional<int64_t> findOperandDim(unsigned operand) const {
    return findDim(rule.operands[operand], factor);
  }
  std::optional<int64_t> findResultDim(unsigned result) const {
    return findDim(rule.results[result], factor);
  }
};

/// Returns the types of the op's results for one part of the batch. A partial
/// sum has the type in which sums are made (getSumType).
llvm::SmallVector<mlir::Type> getPartTypes(mlir::Operation *op,
                                           const BatchFactor &factor,
                                           const Batch &batch, int64_t part);

class BatchFactors {
public:
  /// Finds the batch of the module and the factors of all ops that see it, in
  /// the functions that have features or labels. Errors: no argument has a
  /// batch; the batch has fewer samples than parts, or others than their sum;
  /// no op can be split; a program that cannot be partitioned
  /// (propagateShardings).
  mlir::LogicalResult find(mlir::ModuleOp module, const BatchParts &parts);
  /// Finds the batch alone, and verifies that it has the samples of the parts.
  mlir::LogicalResult findBatch(mlir::ModuleOp module, const BatchParts &parts);

  const Batch &getBatch() const { return batch; }
  /// Returns the op's factor that runs over the batch; null if the op runs
  /// once.
  const BatchFactor *lookup(mlir::Operation *op) const {
    auto known = factors.find(op);
    return known == factors.end() ? nullptr : &known->second;
  }
  /// Returns the functions that have features or labels.
  llvm::ArrayRef<mlir::func::FuncOp> getFunctions() const { return functions; }

private:
  mlir::LogicalResult verifyParts(mlir::func::FuncOp function,
                                  unsigned argument) const;
  bool canSplit(mlir::Operation *op, const BatchFactor &factor) const;
  bool runsAlone(mlir::Operation *op, const BatchFactor &factor) const;

  Batch batch;
  llvm::SmallVector<mlir::func::FuncOp> functions;
  llvm::SmallVector<mlir::BlockArgument> arguments; ///< those with a batch
  llvm::DenseMap<mlir::Operation *, BatchFactor> factors;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_SPLITBATCH_BATCHFACTORS_H
