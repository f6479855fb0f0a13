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
/// Sets the stable name; null removes it.
void setOpName(mlir::Operation *op, mlir::StringAttr name);

/// The operators that an op of one device's program serves: its attribute
/// `heddle.serves`, or else what its location holds, or else its own name. Null
/// if it has none of them.
ServesAttr getServes(mlir::Operation *op);
/// The variable's name and the kind of its role.
ServesAttr getServes(VariableOp variable);
/// The location, with `serves` in it: rewrites pass it on, and equal ops stay
/// equal. Null removes it.
mlir::Location withServes(mlir::Location loc, ServesAttr serves);

/// The attributes that name an argument or result of a function and say what it
/// is for.
mlir::DictionaryAttr getPortAttrs(mlir::MLIRContext *context,
                                  llvm::StringRef name, PortRoleAttr role);

/// Checks that a set of ranks is one of a mesh in this module. `emitError`
/// begins the message: "expected X ".
mlir::LogicalResult
verifyRanks(mlir::Operation *from, RanksAttr ranks,
            llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The mesh that a symbol names, or null if there is none.
MeshOp lookupMesh(mlir::Operation *from, mlir::FlatSymbolRefAttr name);

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_HEDDLE_H
