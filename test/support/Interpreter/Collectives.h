//===- Collectives.h - One collective on all devices ------------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_COLLECTIVES_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_COLLECTIVES_H

#include "Interpreter.h"
#include "dialects/Heddle/Heddle.h"

namespace heddle {

/// The index of a device in its group along the axes; the first axis is the
/// slowest.
int64_t getMemberIndex(MeshAttr mesh, int64_t device,
                       llvm::ArrayRef<mlir::StringAttr> axes);
/// The devices that differ from `device` at most along the axes, in the order
/// of their member indices.
llvm::SmallVector<int64_t> getMembers(MeshAttr mesh, int64_t device,
                                      llvm::ArrayRef<mlir::StringAttr> axes);

/// Computes the result of a comm op on `device`. `operandOf` returns the op's
/// operand on a device. Fails if the op is unknown.
mlir::FailureOr<Tensor>
evaluateCollective(mlir::Operation *op, MeshAttr mesh, int64_t device,
                   llvm::function_ref<const Tensor &(int64_t)> operandOf);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_COLLECTIVES_H
