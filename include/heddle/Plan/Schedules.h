//===- Schedules.h - Schedules by name --------------------------*- C++ -*-===//
//
// A schedule is a number of sub-batches, a mode of recomputation, and an order.
// The table of schedules is in Schedules.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLAN_SCHEDULES_H
#define HEDDLE_PLAN_SCHEDULES_H

#include "heddle/Support/ProgramOrder.h"
#include "heddle/Support/Recompute.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>

namespace heddle {

/// The computation that runs beside communication.
enum class Overlap {
  None,                 ///< nothing: ops run in the order of the text
  Default,              ///< nothing; layers are computed again (Megatron-LM)
  FineGrainedRecompute, ///< nothing; what is computed again never communicates
  CrossPass,            ///< the other half of the batch, also where it is
                        ///< computed again, which communicates again
  Oases,                ///< the other half; nothing communicates twice
  Auto,                 ///< whatever the cost model finds best
};

struct NamedSchedule {
  Overlap overlap;
  llvm::StringLiteral name;
  /// The number of parts of the batch; 0: as the plan says, or whole.
  int64_t subBatches;
  /// The values that the backward pass computes again. If none, the plan's mode
  /// holds. If the plan has none either, nothing is computed again.
  std::optional<RecomputeMode> recompute;
  /// Layers are computed again as a whole, with collectives whose results no
  /// gradient needs.
  bool repeatsWholeLayers;
  /// How heddle-order-program orders the program, whose collectives then run
  /// beside computations. If none, ops run in the order of the text.
  std::optional<ProgramOrder> order;
  /// The most row chunks of a product that the order may cut.
  int64_t chunks;
};

/// Returns all schedules, in the order of Overlap.
llvm::ArrayRef<NamedSchedule> getNamedSchedules();
inline const NamedSchedule &getNamedSchedule(Overlap overlap) {
  return getNamedSchedules()[static_cast<size_t>(overlap)];
}
/// Returns the schedule of that name; null for another name.
const NamedSchedule *findNamedSchedule(llvm::StringRef name);

} // namespace heddle

#endif // HEDDLE_PLAN_SCHEDULES_H
