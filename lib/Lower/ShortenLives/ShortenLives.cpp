//===- ShortenLives.cpp - heddle-shorten-lives ----------------------------===//

#include "../PlanArenas/ProgramBuffers.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
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

/// Returns whether the tensor lies in an argument or variable. Moving its
/// reader then frees nothing.
static bool isStored(Value value) {
  return !value.getDefiningOp() || value.getDefiningOp<LoadOp>();
}

/// If the op only reshapes or packs one tensor, returns this tensor, otherwise
/// null. Such an op is a view, a join with zeros, or a kernel of one tensor
/// whose result has the same size.
static Value getReshaped(Operation *op) {
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return nullptr;
  Value from = op->getOperand(0), to = op->getResult(0);
  if (isJoin(op))
    return llvm::all_of(op->getOpOperands().drop_front(), isZeroPart) ? from
                                                                      : nullptr;
  bool isReshaping = op->getNumOperands() == 1 &&
                     (getViewOffset(op->getResult(0)) ||
                      (isa<func::CallOp>(op) &&
                       getBytes(to.getType()) == getBytes(from.getType())));
  return isReshaping ? from : nullptr;
}

/// Moves the op right behind `place`. Constants that the op reads move, too,
/// if they would come after it.
static void moveAfter(Operation *op, Operation *place) {
  op->moveAfter(place);
  for (Value operand : op->getOperands())
    if (auto constant = operand.getDefiningOp<arith::ConstantOp>())
      if (constant->getBlock() == op->getBlock() &&
          op->isBeforeInBlock(constant))
        constant->moveBefore(op);
}

/// Moves the op and the ops that pack its operand right behind the op that
/// computes the packed tensor, if this tensor is larger than the op's result
/// and has no other reader.
static void hoist(Operation *op) {
  SmallVector<Operation *> packing, moved;
  Operation *place = nullptr;
  for (Value from = op->getOperand(0); from.hasOneUse() && !isStored(from);
       from = getReshaped(packing.back())) {
    Operation *maker = from.getDefiningOp();
    if (maker->getBlock() != op->getBlock())
      break;
    if (getBytes(op->getResult(0).getType()) < getBytes(from.getType())) {
      place = maker;
      moved = packing;
    }
    if (!getReshaped(maker))
      break;
    packing.push_back(maker);
  }
  if (!place)
    return;
  moved.insert(moved.begin(), op);
  for (Operation *next : llvm::reverse(moved)) {
    moveAfter(next, place);
    place = next;
  }
}

/// Moves the op and the ops that unpack its result right before the first
/// reader of the unpacked tensor, if the op's operand is smaller than the
/// result or lies in an argument or variable.
static void sink(Operation *op) {
  Value from = op->getOperand(0), to = op->getResult(0);
  if (!isStored(from) && getBytes(to.getType()) <= getBytes(from.getType()))
    return;
  SmallVector<Operation *> chain{op};
  while (to.hasOneUse()) {
    Operation *user = *to.user_begin();
    if (user->getBlock() != op->getBlock() || getReshaped(user) != to ||
        getBytes(user->getResult(0).getType()) < getBytes(from.getType()))
      break;
    chain.push_back(user);
    to = user->getResult(0);
  }
  Operation *first = nullptr;
  for (Operation *user : to.getUsers()) {
    Operation *ancestor = op->getBlock()->findAncestorOpInBlock(*user);
    if (ancestor && (!first || ancestor->isBeforeInBlock(first)))
      first = ancestor;
  }
  if (first)
    for (Operation *next : chain)
      next->moveBefore(first);
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
