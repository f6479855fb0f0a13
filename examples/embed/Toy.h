//===- Toy.h - A dialect that Heddle knows nothing of -----------*- C++ -*-===//

#ifndef EMBED_TOY_H
#define EMBED_TOY_H

#include "dialects/Heddle/Heddle.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ToyDialect.h.inc"

#define GET_OP_CLASSES
#include "Toy.h.inc"

namespace toy {

/// Rewrites toy ops as linalg ops, on global or local shapes.
mlir::LogicalResult lowerToLinalg(mlir::ModuleOp module);

} // namespace toy

#endif // EMBED_TOY_H
