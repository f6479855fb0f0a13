//===- DefaultPlan.h - Standard plans from a mesh ---------------*- C++ -*-===//

#ifndef HEDDLE_PLAN_DEFAULTPLAN_H
#define HEDDLE_PLAN_DEFAULTPLAN_H

#include "heddle/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include <vector>

namespace heddle {

/// How attention sees a sequence that is split over devices.
enum class ContextParallelism {
  Gather, ///< keys and values are gathered
  Ring,   ///< keys and values go from device to device
  Heads,  ///< heads are exchanged with the sequence
};

/// The mesh of a standard plan. `data` and `tensor` list the sizes of the parts
/// of an axis, major to minor: one size makes the axis dp, two make dp.0, dp.1.
struct DefaultMesh {
  std::vector<int64_t> data = {1}, tensor = {1};
  /// Devices that each have a part of the sequence: an axis cp, if above 1.
  int64_t context = 1;
  ContextParallelism attention = ContextParallelism::Ring;
  /// Splits norms, and so the values between tensor-parallel products, along
  /// the sequence over tp.
  bool sequence = false;
  /// Whether the text names the axis, even with one device.
  bool statesData = false, statesContext = false;

  /// At most kMaxPlanDevices + 1, which stands for any number that is too
  /// large.
  int64_t getNumDevices() const;
};

/// Reads "dp=2,cp=2,tp=4", or "dp=2x4,tp=2x2" with products. Errors say what is
/// wrong with the text.
llvm::Expected<DefaultMesh> parseDefaultMesh(llvm::StringRef text);

/// Makes the standard plan of a mesh for this module:
///  - the batch b is split over dp;
///  - heads n, feed-forward f and vocabulary v are split over tp (Megatron's
///    column and row form follows from that);
///  - the sequence s is split over cp, and attention as `mesh.attention` says;
///  - state is stored over dp: at level 1 the optimizer's, at 2 accumulated
///    gradients too, at 3 parameters too.
///
/// A variable is stored along the best of its dimensions: one that tp leaves
/// alone and dp divides, else one that dp divides, else one that tp leaves
/// alone; the largest of several. If dp is a product, state is stored over its
/// last part alone: groups of devices that each hold all of it. Only variables
/// of the module get an entry, so levels above 0 need a module after autodiff.
/// Errors: an axis without devices, another level than 0 to 3.
llvm::Expected<Plan> makeDefaultPlan(mlir::ModuleOp module,
                                     const DefaultMesh &mesh,
                                     int64_t zeroLevel);

} // namespace heddle

#endif // HEDDLE_PLAN_DEFAULTPLAN_H
