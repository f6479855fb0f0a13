//===- ForwardResults.h - The form of @forward ------------------*- C++ -*-===//

#ifndef HEDDLE_AUTODIFF_FORWARDRESULTS_H
#define HEDDLE_AUTODIFF_FORWARDRESULTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle {

/// The results of @forward, by their roles.
struct ForwardResults {
  unsigned lossSum, labelCount;
  llvm::SmallVector<unsigned> outputs;
};

/// Checks the form of @forward and finds its results.
mlir::FailureOr<ForwardResults> verifyForward(mlir::func::FuncOp forward);

/// Checks that @forward stores nothing but buffers.
mlir::LogicalResult verifyStores(mlir::func::FuncOp forward,
                                 const mlir::SymbolTable &symbols);

/// Checks that a module has none of the programs yet, and that its parameters
/// are f32.
mlir::LogicalResult verifyModule(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_AUTODIFF_FORWARDRESULTS_H
