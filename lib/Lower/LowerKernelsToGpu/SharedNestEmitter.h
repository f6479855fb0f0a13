//===- SharedNestEmitter.h - The state of a nest on a GPU -------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_LOWERKERNELSTOGPU_SHAREDNESTEMITTER_H
#define HEDDLE_LIB_LOWER_LOWERKERNELSTOGPU_SHAREDNESTEMITTER_H

#include "GpuEmitter.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::lower {

/// The state of one nest while it is emitted for a row.
struct GpuEmitter::NestState {
  explicit NestState(const SharedNest &shared)
      : shared(shared), indices(shared.loops.extents.size()) {}

  struct Read {
    const Access *access;
    Location location;
    llvm::SmallVector<mlir::Value> values; ///< of the adjacent elements
    bool once; ///< the same for all iterations; `values` is set
  };
  /// A result of a reduction.
  struct Sum {
    unsigned statement, result;
    const Access *write;
    mlir::TypedAttr initial; ///< of each thread
    mlir::TypedAttr start;   ///< the start of the reduction
    Combiner combiner;       ///< null if no threads share the reduction
    Carried current;         ///< one value for each adjacent column, or one
  };

  void takeSums(mlir::ValueRange values) {
    size_t next = 0;
    for (Sum &sum : sums)
      for (mlir::Value &value : sum.current)
        value = values[next++];
  }
  Carried getSums() const {
    Carried values;
    for (const Sum &sum : sums)
      llvm::append_range(values, sum.current);
    return values;
  }
  /// Combines the start of the reduction with the result that the threads
  /// combined.
  mlir::Value complete(GpuEmitter &emitter, const Sum &sum,
                       mlir::Value total) const {
    if (!sum.combiner.op || sum.start == sum.initial)
      return total;
    mlir::Value start = emitter.b.create<mlir::arith::ConstantOp>(sum.start);
    return emitter.combine(sum.combiner, start, total);
  }

  const SharedNest &shared;
  llvm::SmallVector<mlir::Value> indices; ///< of the joined loops
  /// The read of each (statement, operand). Missing if the value passes in a
  /// register.
  llvm::MapVector<std::pair<unsigned, unsigned>, Read> reads;
  llvm::DenseMap<mlir::Value, Location> targets; ///< tensors stored
  llvm::SmallVector<Sum> sums;
  /// Values computed in this iteration.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> forwarded;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_LOWERKERNELSTOGPU_SHAREDNESTEMITTER_H
