//===- GuardTraps.h - Branches that are computed in vain --------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_GUARDTRAPS_H
#define HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_GUARDTRAPS_H

namespace mlir::scf {
class IfOp;
} // namespace mlir::scf

namespace heddle::lower {

/// So that both branches may be computed whatever the condition: what may trap
/// (a division by zero, a read beyond a tensor's end) gets a harmless operand
/// where its branch is not taken. Calls must have been inlined.
void guardTraps(mlir::scf::IfOp op);

/// And so that a loop ends there: it makes no iteration. Loops that will be
/// written out stay as they are.
void guardLoops(mlir::scf::IfOp op);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_GUARDTRAPS_H
