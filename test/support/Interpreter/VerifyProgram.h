//===- VerifyProgram.h - Limits of the interpreter --------------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_VERIFYPROGRAM_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_VERIFYPROGRAM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Verifies that the interpreter can hold every value of the function and of
/// the functions that it calls. Emits an error on an op with a tensor of
/// dynamic shape, without rank or of more than 2^28 elements, on an op with
/// integers wider than 64 bits, and on a recursive call.
mlir::LogicalResult verifyProgram(mlir::func::FuncOp function);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_VERIFYPROGRAM_H
