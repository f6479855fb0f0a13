//===- ChooseSchedule.h - What the schedule `auto` leaves open --*- C++ -*-===//
//
// The schedule `auto` states neither the number of sub-batches nor the
// recomputation. If the options and the plan do not state them either, the
// program is compiled in several variants up to the phase `executable`. Each
// variant is simulated, and the fastest one that fits into a device's memory is
// taken.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_CHOOSESCHEDULE_H
#define HEDDLE_PIPELINES_CHOOSESCHEDULE_H

#include "heddle/Pipelines/Pipelines.h"
#include "llvm/ADT/SmallVector.h"

namespace heddle {

struct ScheduleVariant {
  int64_t subBatches = 1;
  RecomputeMode recompute = RecomputeMode::None;
  /// Plan::recomputeBytes; 0: the free memory of a device.
  int64_t recomputeBytes = 0;
  /// CompileOptions::scatterSums.
  bool scattersSums = false;
  /// CompileOptions::exchangeChunks; 1: as the options or the plan say.
  int64_t exchangeChunks = 1;
  /// CompileOptions::exchangeRing.
  bool exchangesInRing = false;

  bool operator==(const ScheduleVariant &) const = default;
};

/// A variant of a program, and its simulated time and memory.
struct VariantPrediction {
  ScheduleVariant variant;
  double seconds = 0; ///< of a step
  /// No order of the variant's calls takes less than its computation and its
  /// traffic on any link.
  double bound = 0;
  double links = 0; ///< of the bound, the traffic
  /// The memory of the device that exceeds its capacity most. If `fixed` bytes
  /// exceed the capacity of some device, it is one of these devices.
  int64_t bytes = 0;    ///< that the runtime allocates
  int64_t fixed = 0;    ///< of them, those that recomputation cannot reduce
  int64_t capacity = 0; ///< of the device

  /// Returns whether the bytes fit into each device's memory.
  bool fits() const { return bytes <= capacity; }
  /// Returns whether variables, arguments and results fit into each device's
  /// memory. Recomputation may reduce the rest: the arena, and the slots of a
  /// pipeline.
  bool canFit() const { return fixed <= capacity; }
};

struct ScheduleChoice {
  VariantPrediction best;
  /// All variants that were compiled, the best one included.
  llvm::SmallVector<VariantPrediction> tried;
};

/// Returns whether `options`, and a plan that they state, leave a number of
/// sub-batches or a recomputation to be chosen: the schedule is `auto`, a
/// cluster is given, and one of the two is not stated. A plan with errors
/// leaves nothing to be chosen.
bool leavesChoice(const CompileOptions &options);

/// Makes the choices that leavesChoice() found open. `module` is imported, or
/// of phase `autodiff`; it is not changed. The variants have 1,
/// 2, 3, 4 or 6 sub-batches, and recompute only if they do not fit otherwise.
/// For an imported model of many equal layers, variants are predicted from
/// models of 2 and of 6 of these layers. If the program may have sums that are
/// not scattered, the best variant is compared with the one that scatters them.
/// If sums are scattered, exchanges in chunks or in a ring are tried, too.
/// Warnings and remarks of variants are dropped. Returns nullopt if the whole
/// batch without recomputation does not compile: the caller's own compilation
/// will say why. A planner that compares such variants itself states the number
/// of sub-batches and the recomputation instead.
std::optional<ScheduleChoice> chooseSchedule(mlir::ModuleOp module,
                                             const CompileOptions &options);

/// Returns the best variant in words, with its time and memory: "2 sub-batches,
/// nothing computed again: 10.1 ms, 1200 bytes of 4000".
std::string describeBest(const ScheduleChoice &choice);

/// The same, and then each other variant that was tried, after a semicolon.
std::string describe(const ScheduleChoice &choice);

} // namespace heddle

#endif // HEDDLE_PIPELINES_CHOOSESCHEDULE_H
