//===- Collectives.h - One collective on all devices ------------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_COLLECTIVES_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_COLLECTIVES_H

#include "Interpreter.h"
#include "dialects/Heddle/Heddle.h"

namespace heddle {

/// The index of a device along axes, the first axis slowest.
int64_t getMemberIndex(MeshAttr mesh, int64_t device,
                       llvm::ArrayRef<mlir::StringAttr> axes);
/// The devices that differ from `device` only along the axes, in that order.
llvm::SmallVector<int64_t> getMembers(MeshAttr mesh, int64_t device,
                                      llvm::ArrayRef<mlir::StringAttr> axes);

/// Evaluates a comm op on `device`, given the operand on every device. Fails if
/// the op is unknown.
mlir::FailureOr<Tensor>
evaluateCollective(mlir::Operation *op, MeshAttr mesh, int64_t device,
                   llvm::function_ref<const Tensor &(int64_t)> operandOf);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_COLLECTIVES_H
