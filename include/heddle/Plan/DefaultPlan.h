//===- DefaultPlan.h - Standard plans from a mesh ---------------*- C++ -*-===//

#ifndef HEDDLE_PLAN_DEFAULTPLAN_H
#define HEDDLE_PLAN_DEFAULTPLAN_H

#include "heddle/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include <vector>

namespace heddle {

/// How attention is computed where the sequence is split over devices.
enum class ContextParallelism {
  Gather, ///< keys and values are gathered
  Ring,   ///< keys and values go from device to device
  Heads,  ///< heads are exchanged with the sequence
};

/// All kinds, the default first.
inline constexpr ContextParallelism kContextKinds[] = {
    ContextParallelism::Ring, ContextParallelism::Gather,
    ContextParallelism::Heads};

/// Returns the word of the command line: "ring", "gather" or "heads".
llvm::StringRef getContextName(ContextParallelism kind);
/// Returns nullopt if the text is no kind.
std::optional<ContextParallelism> parseContextParallelism(llvm::StringRef text);

/// The mesh of a standard plan. `data` and `tensor` list the sizes of the parts
/// of an axis, major to minor: one size makes the axis dp, two make dp.0 and
/// dp.1.
struct DefaultMesh {
  std::vector<int64_t> data = {1}, tensor = {1};
  /// The number of devices along the axis pp, which have different stages of a
  /// pipeline. If above 1, the mesh has the axis, as its first.
  int64_t pipeline = 1;
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  /// Stages on each of these devices; 0: as the schedule needs.
  int64_t chunks = 0;
  PipelineBarrier barrier = PipelineBarrier::Step;
  /// The number of parts of the sequence. If above 1, the mesh has an axis cp.
  int64_t context = 1;
  ContextParallelism attention = ContextParallelism::Ring;
  /// Splits the sequence of norms over tp, and so that of the values between
  /// tensor-parallel products.
  bool sequence = false;
  /// Whether the text names the axis dp or cp, even with one device.
  bool statesData = false, statesContext = false;
  /// The option of the command line that states the mesh, for messages; empty:
  /// none does.
  std::string option = {};

  /// Returns the number of devices, or kMaxPlanDevices + 1 for any number above
  /// kMaxPlanDevices.
  int64_t getNumDevices() const;
  /// Returns the number of devices along dp, the product of its parts, for a
  /// mesh of at most kMaxPlanDevices devices.
  int64_t getDataSize() const;
  /// The same along tp.
  int64_t getTensorSize() const;
};

/// Reads "pp=2,dp=2,cp=2,tp=4", or "dp=2x4,tp=2x2" with products. The error
/// says what is wrong with the text.
llvm::Expected<DefaultMesh> parseDefaultMesh(llvm::StringRef text);

/// Makes the standard plan of a mesh for this module:
///  - the batch b is split over dp;
///  - heads n, feed-forward f and vocabulary v are split over tp (Megatron's
///    column and row form follows from that);
///  - the model is cut into stages of equal work over pp;
///  - the sequence s is split over cp, and attention as `mesh.attention` says;
///  - state is stored over dp: at level 1 the optimizer's, at level 2 also
///    accumulated gradients, at level 3 also parameters.
///
/// A variable is stored along one dimension: one that tp does not split and dp
/// divides; else one that dp divides; else one that tp does not split. Of
/// several, it is the largest. If dp is a product, only its last axis splits
/// storage, so each group of devices along that axis holds all state. Only
/// variables of the module get an entry, so levels above 0 need a module after
/// autodiff. An axis without devices and a level outside 0 to 3 are errors.
llvm::Expected<Plan> makeDefaultPlan(mlir::ModuleOp module,
                                     const DefaultMesh &mesh,
                                     int64_t zeroLevel);

} // namespace heddle

#endif // HEDDLE_PLAN_DEFAULTPLAN_H
