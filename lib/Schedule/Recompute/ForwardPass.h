//===- ForwardPass.h - The ops that a loss is computed from -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_RECOMPUTE_FORWARDPASS_H
#define HEDDLE_LIB_SCHEDULE_RECOMPUTE_FORWARDPASS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {

/// The forward pass of a device's program: the ops from which its loss is
/// computed. All other ops that read its values are the backward pass.
class ForwardPass {
public:
  /// Finds the forward pass of a function of one block. The loss is a result
  /// with that role, or what is stored to a variable with that role. In a
  /// program without roles, it is the first result that is a float without
  /// dimensions. Without a loss, the forward pass is empty.
  explicit ForwardPass(mlir::func::FuncOp function);

  mlir::Block &getBlock() const { return *block; }
  /// The ops that depend on the data of the batch, in the order of the text.
  llvm::ArrayRef<mlir::Operation *> getOps() const { return ops; }
  /// The position of such an op in getOps(); -1 for all other ops.
  int32_t getIndex(mlir::Operation *op) const {
    auto known = indices.find(op);
    return known == indices.end() ? -1 : known->second;
  }
  bool contains(mlir::Operation *op) const { return members.contains(op); }

  /// Returns whether the value depends on nothing but variables and constants,
  /// such as a gathered weight or a mask.
  bool isFree(mlir::Value value) const;

  /// Returns the op of the block that is, or contains, an op.
  mlir::Operation *getOwner(mlir::Operation *op) const {
    return block->findAncestorOpInBlock(*op);
  }

private:
  mlir::Block *block;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, int32_t> indices;
  llvm::DenseSet<mlir::Operation *> members, free;
};

/// Returns the values of the block that the op, or an op of its regions, reads.
llvm::SmallSetVector<mlir::Value, 4> getOutsideInputs(mlir::Operation *op);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_RECOMPUTE_FORWARDPASS_H
