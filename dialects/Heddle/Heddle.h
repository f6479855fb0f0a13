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

/// The stable name of the network's module that an op came from, such as
/// "h.0.mlp.c_fc", or "" if it has none.
llvm::StringRef getOpName(mlir::Operation *op);
/// Sets the stable name; null removes it.
void setOpName(mlir::Operation *op, mlir::StringAttr name);

/// The operators that an op of one device's program serves. Read from the op's
/// attribute `heddle.serves`, else from its location (see withServes), else
/// made of its own name. Null if the op has none of the three.
ServesAttr getServes(mlir::Operation *op);
/// A `#heddle.serves` of the variable's name, with the kind that its role has.
ServesAttr getServes(VariableOp variable);
/// Returns `loc` with `serves` as its metadata; null removes the metadata.
/// Rewrites pass locations on, and ops that differ in location alone are equal.
mlir::Location withServes(mlir::Location loc, ServesAttr serves);

/// The mesh that a symbol names, or null if there is none.
MeshOp lookupMesh(mlir::Operation *from, mlir::FlatSymbolRefAttr name);

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_HEDDLE_H
