//===- GuardTraps.h - Makes untaken branches harmless -----------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_GUARDTRAPS_H
#define HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_GUARDTRAPS_H

namespace mlir::scf {
class IfOp;
} // namespace mlir::scf

namespace heddle::lower {

/// Makes both branches safe to compute whatever the condition. An operand that
/// may trap (a divisor of zero, a read beyond a tensor's end) is replaced by a
/// harmless value where its branch is not taken. Calls must have been inlined.
void guardTraps(mlir::scf::IfOp op);

/// Makes the loops in a branch run no iteration where the branch is not taken.
/// Loops that will be unrolled do not change.
void guardLoops(mlir::scf::IfOp op);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_GUARDTRAPS_H
