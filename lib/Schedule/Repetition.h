//===- Repetition.h - Ops that repeat ---------------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_REPETITION_H
#define HEDDLE_LIB_SCHEDULE_REPETITION_H

#include "mlir/IR/Operation.h"

namespace heddle {

/// Returns a number that two ops share if they compute the same from other
/// operands or variables. Names do not count.
uint64_t getFingerprint(mlir::Operation *op);

/// Ops that repeat: op i is as op i + period, for all i from `begin` to
/// `end` - period.
struct Run {
  int32_t begin, end;
};

/// Returns the runs of the least period with which nearly as many ops repeat as
/// with any other (nine in ten of them), and sets `period`. Each has at least
/// two periods. Returns none if less than half of the ops repeat with any
/// period. `fingerprints` are the ops' fingerprints.
llvm::SmallVector<Run> findLeastRuns(llvm::ArrayRef<uint64_t> fingerprints,
                                     int32_t &period);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_REPETITION_H
