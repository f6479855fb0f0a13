//===- Heddle.h - The heddle dialect ----------------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_HEDDLE_H
#define HEDDLE_DIALECTS_HEDDLE_HEDDLE_H

#include "dialects/Heddle/HeddleDialect.h"
#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "dialects/Heddle/HeddleOps.h.inc"

namespace heddle {

/// The stable name of the module that an op came from, or "" if it has none.
llvm::StringRef getOpName(mlir::Operation *op);
/// Sets it; null removes it.
void setOpName(mlir::Operation *op, mlir::StringAttr name);

/// The mesh that a symbol names, or null if there is none.
MeshOp lookupMesh(mlir::Operation *from, mlir::FlatSymbolRefAttr name);

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_HEDDLE_H
