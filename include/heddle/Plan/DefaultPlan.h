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
  Ring,   ///< keys and values go round
  Heads,  ///< heads are exchanged with the sequence
};

/// The mesh of a standard plan. Each list is the sizes of an axis' parts, major
/// to minor; one size is an axis of its own name, several are dp.0, dp.1, ….
struct DefaultMesh {
  std::vector<int64_t> data = {1}, tensor = {1};
  /// Devices that each have a part of the sequence: an axis cp, if above 1.
  int64_t context = 1;
  ContextParallelism attention = ContextParallelism::Ring;
  /// Norms, and what lies between tensor-parallel products, are split along the
  /// sequence over tp.
  bool sequence = false;
  /// Whether the text had the axis, be it of one device.
  bool statesData = false, statesContext = false;

  /// At most kMaxPlanDevices + 1, which stands for all that are too many.
  int64_t getNumDevices() const;
};

/// Reads "dp=2,cp=2,tp=4", or "dp=2x4,tp=2x2" with products. Errors say what is
/// wrong with the text.
llvm::Expected<DefaultMesh> parseDefaultMesh(llvm::StringRef text);

/// Data parallel x tensor parallel, with ZeRO over the data axis, as a plan for
/// this module: the mesh {"dp", "tp"}; batch b over dp; heads n, feed-forward f
/// and vocabulary v over tp (Megatron's column and row form follows from
/// that); at level 1 the optimizer's state stored over dp, at 2 the
/// accumulated gradients too, at 3 the parameters too. Of each variable the
/// dimension is chosen that tp leaves alone, that divides by dp, and that is
/// largest, in this order. `module` may be before or after autodiff: state that
/// does not exist yet is named by the patterns of heddle-build-training-step
/// only if it exists, so call it after autodiff for levels above 0.
/// Over cp the sequence s is split everywhere, and attention as the mesh says.
/// Where the data axis is a product, state is stored over its last part alone:
/// groups of devices that each hold all of it.
/// Errors: an axis without devices, another level than 0 to 3.
llvm::Expected<Plan> makeDefaultPlan(mlir::ModuleOp module,
                                     const DefaultMesh &mesh,
                                     int64_t zeroLevel);

} // namespace heddle

#endif // HEDDLE_PLAN_DEFAULTPLAN_H
