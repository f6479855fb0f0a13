//===- DefaultPlan.h - Standard plans from a mesh ---------------*- C++ -*-===//

#ifndef HEDDLE_PLAN_DEFAULTPLAN_H
#define HEDDLE_PLAN_DEFAULTPLAN_H

#include "heddle/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Data parallel x tensor parallel, with ZeRO over the data axis, as a plan for
/// this module: the mesh {"dp", "tp"}; batch b over dp; heads n, feed-forward f
/// and vocabulary v over tp (Megatron's column and row form follows from
/// that); at level 1 the optimizer's state stored over dp, at 2 the
/// accumulated gradients too, at 3 the parameters too. Of each variable the
/// dimension is chosen that tp leaves alone, that divides by dp, and that is
/// largest, in this order. `module` may be before or after autodiff: state that
/// does not exist yet is named by the patterns of heddle-build-training-step
/// only if it exists, so call it after autodiff for levels above 0.
Plan makeDefaultPlan(mlir::ModuleOp module, int64_t dataParallel,
                     int64_t tensorParallel, unsigned zeroLevel);

} // namespace heddle

#endif // HEDDLE_PLAN_DEFAULTPLAN_H
