//===- WriteOut.h - Blocks written out where they run -----------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_INLINECALLS_WRITEOUT_H
#define HEDDLE_LIB_LOWER_INLINECALLS_WRITEOUT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace heddle::lower {

/// Returns the functions of the module that become programs: those with a body
/// that are no kernels. Emits an error on a function of several blocks.
mlir::FailureOr<llvm::SmallVector<mlir::func::FuncOp>>
getPrograms(mlir::ModuleOp module);

/// Clones blocks to the places where they run, within one function, and limits
/// the number of ops cloned.
class BlockWriter {
public:
  /// `pass` is the argument of the pass whose option max-ops is `maxOps`.
  BlockWriter(llvm::StringRef pass, int64_t maxOps)
      : pass(pass), maxOps(maxOps) {}

  /// Counts one op that is made for `at`. Emits an error on `at` if the ops
  /// exceed maxOps.
  mlir::LogicalResult count(mlir::Operation *at);

  /// Clones the ops of `block` in front of `at` and returns the operands of its
  /// terminator. Folds values that become constant, so that bounds of inner
  /// loops are known. `mapping` gives the values of the block's arguments.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  write(mlir::Block &block, mlir::IRMapping &mapping, mlir::Operation *at);

private:
  llvm::StringRef pass;
  int64_t maxOps, ops = 0;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_INLINECALLS_WRITEOUT_H
