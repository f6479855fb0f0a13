//===- ShortenLives.cpp - heddle-shorten-lives ----------------------------===//

#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_SHORTENLIVESPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns whether the op is a collective or slice that changes the size of one
/// tensor.
static bool changesSize(Operation *op) {
  return isa<comm::AllGatherOp, comm::ReduceScatterOp, comm::AllToAllOp,
             comm::SliceOp>(op);
}

static int64_t getBytes(Value value) {
  return rt::getByteSize(cast<RankedTensorType>(value.getType()));
}

/// Returns whether the tensor lies in an argument or variable. Moving its
/// reader then frees nothing.
static bool isStored(Value value) {
  return !value.getDefiningOp() || value.getDefiningOp<LoadOp>();
}

/// Moves the op right behind the op that computes its operand, if the operand
/// is larger than the result and has no other reader.
static void hoist(Operation *op) {
  Value from = op->getOperand(0);
  Operation *maker = from.getDefiningOp();
  if (maker && maker->getBlock() == op->getBlock() && from.hasOneUse() &&
      !isStored(from) && getBytes(op->getResult(0)) < getBytes(from))
    op->moveAfter(maker);
}

/// Moves the op right before its first reader, if its operand is smaller than
/// the result or lies in an argument or variable.
static void sink(Operation *op) {
  Value from = op->getOperand(0);
  if (!isStored(from) && getBytes(op->getResult(0)) <= getBytes(from))
    return;
  Operation *first = nullptr;
  for (Operation *user : op->getUsers()) {
    Operation *ancestor = op->getBlock()->findAncestorOpInBlock(*user);
    if (ancestor && (!first || ancestor->isBeforeInBlock(first)))
      first = ancestor;
  }
  if (first)
    op->moveBefore(first);
}

namespace {
struct ShortenLives : heddle::impl::ShortenLivesPassBase<ShortenLives> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<func::FuncOp>()) {
      if (program.isExternal() || program->hasAttr(kKernelAttrName))
        continue;
      for (Block &block : program.getBody()) {
        SmallVector<Operation *> ops;
        for (Operation &op : block)
          if (changesSize(&op))
            ops.push_back(&op);
        // Hoists in program order, so that the user of a hoisted op can follow
        // it. Then sinks in reverse order, so that the operand of a sunk op can
        // follow it.
        for (Operation *op : ops)
          hoist(op);
        for (Operation *op : llvm::reverse(ops))
          sink(op);
      }
    }
  }
};
} // namespace
