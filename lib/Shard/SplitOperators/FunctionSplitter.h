//===- FunctionSplitter.h - Splits the ops of one function ------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_SPLITOPERATORS_FUNCTIONSPLITTER_H
#define HEDDLE_LIB_SHARD_SPLITOPERATORS_FUNCTIONSPLITTER_H

#include "Slices.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Returns the name of the variable that holds a slice of `variable`.
mlir::StringAttr getSliceName(mlir::StringAttr variable, int64_t slice);

/// Splits the ops of one function, in order. An op that runs in slices is
/// replaced by its slices at the same place. Consecutive elementwise ops on
/// slices form a chain, which is made at its end, slice by slice.
class FunctionSplitter {
public:
  /// Appends replaced ops to `replaced` instead of erasing them: maps have
  /// values as keys, and a new value must not get the address of an erased one.
  FunctionSplitter(mlir::func::FuncOp function, const Slices &slices,
                   llvm::SmallVectorImpl<mlir::Operation *> &replaced)
      : block(function.getBody().front()), slices(slices),
        builder(function.getContext()), replaced(replaced) {}

  mlir::LogicalResult run();

private:
  /// The factor whose slices an op runs over, and how it is cut.
  struct Loop {
    unsigned factor;
    Cut cut; ///< `dim` is unused
  };

  mlir::LogicalResult visit(mlir::Operation *op);
  std::optional<Loop> findLoop(mlir::Operation *op, const ShardingRule &rule);
  mlir::LogicalResult runInSlices(mlir::Operation *op, const ShardingRule &rule,
                                  const Loop &loop);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  runSlice(mlir::Operation *op, const ShardingRule &rule, const Loop &loop,
           int64_t slice, mlir::TypeRange types);
  /// Makes the ops of the open chain: all of them for the first slice, then all
  /// for the second, and so on.
  mlir::LogicalResult flush(mlir::Operation *at);
  bool joinsChain(mlir::Operation *op);
  bool isTransparent(mlir::Operation *op);
  bool isLazy(mlir::Value value);
  mlir::Value getSlice(mlir::Value value, const Cut &cut, int64_t slice);
  mlir::Value getWhole(mlir::Value value);
  mlir::Value extractSlice(mlir::Value whole, const Cut &cut, int64_t slice);
  /// Records `whole` as the joined form of `value`, and cuts its slices out of
  /// it.
  void setWhole(mlir::Value value, mlir::Value whole);
  mlir::Block &block;
  const Slices &slices;
  mlir::OpBuilder builder;
  llvm::SmallVector<mlir::Operation *> chain;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> made;
  llvm::DenseMap<mlir::Value, mlir::Value> wholes;
  llvm::SmallVectorImpl<mlir::Operation *> &replaced;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_SPLITOPERATORS_FUNCTIONSPLITTER_H
