//===- GatherIndex.h - Gathers of the backward pass -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_RECOMPUTE_GATHERINDEX_H
#define HEDDLE_LIB_SCHEDULE_RECOMPUTE_GATHERINDEX_H

#include "ForwardPass.h"

#include <unordered_map>

namespace heddle {

/// The collectives of the backward pass that depend on variables and constants
/// alone, by what they gather. A lookup takes the same time in a deep program
/// as in a shallow one.
///
/// Barriers may be inserted between the ops, and an indexed collective may be
/// replaced by a copy of an equal one. All other ops keep their operands.
class GatherIndex {
public:
  explicit GatherIndex(const ForwardPass &forward);

  /// Returns the first op of the block that gathers the same variable in the
  /// same way; null if there is none.
  mlir::Operation *find(mlir::Operation *gather);
  /// Adds a copy of a gather. Its inputs are those of the gather, copies of
  /// them, or barriers of either.
  void addCopy(mlir::Operation *gather, mlir::Operation *copy);
  void remove(mlir::Operation *gather);

private:
  /// Returns the same number for values that are computed in the same way from
  /// the same variables and constants, however many barriers lie between.
  size_t getHash(mlir::Value value);
  size_t getHash(mlir::Operation *op);

  llvm::DenseMap<mlir::Operation *, size_t> hashes;
  /// The keys are hashes. The values are in no order.
  std::unordered_map<size_t, llvm::SmallVector<mlir::Operation *, 2>> gathers;
};

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_RECOMPUTE_GATHERINDEX_H
