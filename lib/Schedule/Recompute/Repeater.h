//===- Repeater.h - Writes what is computed again ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_RECOMPUTE_REPEATER_H
#define HEDDLE_LIB_SCHEDULE_RECOMPUTE_REPEATER_H

#include "GatherIndex.h"
#include "mlir/IR/Builders.h"

namespace heddle {

/// Writes copies of ops of the forward pass into the backward pass.
class Repeater {
public:
  /// If `communicates` is false, no collective is copied: a gathered weight
  /// that no op of the backward pass gathers anyway is kept.
  Repeater(const ForwardPass &forward, bool communicates)
      : forward(forward), communicates(communicates), gathers(forward),
        builder(forward.getBlock().getParent()->getContext()) {}

  /// Inserts copies of the ops before the first op of the backward pass that
  /// reads one of their results. All ops of the backward pass then read the
  /// copies. Ops that do not depend on each other are copied apart, each group
  /// before its own readers.
  ///
  /// `ops` are indices in the forward pass, ascending.
  void repeat(llvm::ArrayRef<int32_t> ops);

  int64_t getNumRepeated() const { return numRepeated; }

  /// Erases collectives whose results are read no more. To be called last.
  void finish();

private:
  void repeatGroup(llvm::ArrayRef<mlir::Operation *> group);
  /// Returns the ops of the backward pass that read a result of the group, in
  /// the order of the text.
  llvm::SmallVector<mlir::Operation *>
  findReaders(llvm::ArrayRef<mlir::Operation *> group);
  /// Returns the gradient that is computed before `place` and without which the
  /// readers cannot run; null if there is none.
  mlir::Value findGradient(llvm::ArrayRef<mlir::Operation *> readers,
                           mlir::Operation *place);
  /// Returns the values, behind a barrier that waits for the gradient.
  mlir::ValueRange makeBarrier(mlir::ValueRange values);
  /// Returns what the copies read instead of a value that depends on variables
  /// and constants alone.
  mlir::Value getFree(mlir::Value value);
  /// Returns whether the copies may read the value itself: it costs no memory,
  /// or the backward pass reads it anyway.
  bool isAtHand(mlir::Value value) const;
  mlir::Value copyFree(mlir::Operation *maker, mlir::Value value);

  const ForwardPass &forward;
  bool communicates;
  GatherIndex gathers;
  mlir::OpBuilder builder;
  int64_t numRepeated = 0;
  llvm::SmallVector<mlir::Operation *> replaced; ///< by copies

  // The state of the group that is being copied.
  mlir::Value gradient;
  llvm::DenseMap<mlir::Value, mlir::Value> freeCopies;
};

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_RECOMPUTE_REPEATER_H
