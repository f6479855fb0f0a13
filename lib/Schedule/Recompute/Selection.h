//===- Selection.h - What is kept and what is computed again ----*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_RECOMPUTE_SELECTION_H
#define HEDDLE_LIB_SCHEDULE_RECOMPUTE_SELECTION_H

#include "Segments.h"

namespace heddle {

/// The price of a value that is kept for the backward pass, and of an op that
/// runs again.
struct RecomputeCosts {
  /// What a byte that is kept costs, in seconds.
  double secondsPerByte = 0;
  /// Returns the time of an op in seconds; nullopt if it must not run again.
  llvm::function_ref<std::optional<double>(mlir::Operation *)> getSeconds;
  /// Whether all collectives run again, also those whose results no gradient
  /// needs, as if the segment were called again.
  bool repeatsCollectives = false;
};

/// Returns the ops of a segment that run again in the backward pass, by their
/// indices in the forward pass, ascending. The values that cross the segment's
/// borders are kept in any case. Of all ways to provide the other values that
/// the backward pass reads, the one with the least sum of prices is chosen, by
/// a least cut.
llvm::SmallVector<int32_t> selectRecomputed(const ForwardPass &forward,
                                            Segment segment,
                                            const RecomputeCosts &costs);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_RECOMPUTE_SELECTION_H
