//===- OutlineLoops.h - Loops that stay loops -------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_OUTLINELOOPS_H
#define HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_OUTLINELOOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace heddle::lower {

/// The loop as an scf.while that carries the index first. A step that is not
/// positive makes no iteration.
mlir::scf::WhileOp toWhile(mlir::scf::ForOp loop);

/// Replaces the loop by a heddle.while. Its regions become private functions of
/// tensors, appended to `callees`, which may hold control flow again; what they
/// take from around them becomes an operand, or is computed there again where
/// that reads nothing. Loads of variables move before the loop. An error on a
/// heddle.store inside, or on a value that no tensor stands for.
mlir::LogicalResult
outlineLoop(mlir::scf::WhileOp loop, mlir::SymbolTable &symbols,
            llvm::SmallVectorImpl<mlir::func::FuncOp> &callees);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_FLATTENCONTROLFLOW_OUTLINELOOPS_H
