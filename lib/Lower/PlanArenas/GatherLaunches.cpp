//===- GatherLaunches.cpp - Brings equal launches together ----------------===//

#include "GatherLaunches.h"
#include "../Batches/Batches.h"
#include "ProgramBuffers.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

static int64_t getBytes(Value value) {
  return rt::getByteSize(cast<RankedTensorType>(value.getType()));
}

namespace {

/// Gathers the calls of one program.
class Gatherer {
public:
  explicit Gatherer(func::FuncOp program)
      : block(program.getBody().front()), builder(program.getContext()) {
    int64_t loaded = 0;
    for (auto load : block.getOps<LoadOp>())
      loaded += getBytes(load.getResult());
    budget = loaded / 4;
  }

  void run();

private:
  using Batch = SmallVector<func::CallOp>;
  bool join(Batch &batch, func::CallOp call);
  bool collectMoved(Value value, Operation *place,
                    llvm::SetVector<Operation *> &moved);
  bool isStoredBetween(Operation *place, LoadOp load);
  void mark(Batch &batch);

  Block &block;
  Builder builder;
  int64_t budget; ///< bytes of values that may yet live longer
  int64_t next = 0;
};

} // namespace

bool Gatherer::isStoredBetween(Operation *place, LoadOp load) {
  for (auto store : block.getOps<StoreOp>())
    if (store.getVariableAttr() == load.getVariableAttr() &&
        place->isBeforeInBlock(store) && store->isBeforeInBlock(load))
      return true;
  return false;
}

/// Adds to `moved` the ops that have to move in front of `place` so that
/// `value` is known there, in their order. Returns false if they cannot move.
bool Gatherer::collectMoved(Value value, Operation *place,
                            llvm::SetVector<Operation *> &moved) {
  Operation *maker = value.getDefiningOp();
  if (!maker || maker->isBeforeInBlock(place) || moved.contains(maker))
    return true;
  auto load = dyn_cast<LoadOp>(maker);
  if (load ? isStoredBetween(place, load)
           : !isa<arith::ConstantOp>(maker) &&
                 !(maker->getNumResults() == 1 &&
                   isa<RankedTensorType>(value.getType()) &&
                   getViewOffset(maker->getResult(0))))
    return false;
  for (Value operand : maker->getOperands())
    if (!collectMoved(operand, place, moved))
      return false;
  moved.insert(maker);
  return true;
}

/// Moves the call behind the batch if it can run together with it.
bool Gatherer::join(Batch &batch, func::CallOp call) {
  int64_t kept = 0;
  for (Value result : call.getResults())
    if (!llvm::all_of(result.getUsers(), llvm::IsaPred<StoreOp>))
      kept += getBytes(result);
  bool isNext = batch.back()->getNextNode() == call.getOperation();
  if (!isNext && kept > budget)
    return false;
  llvm::SetVector<Operation *> moved;
  for (Value operand : call.getOperands())
    if (!collectMoved(operand, batch.front(), moved))
      return false;
  for (Operation *op : moved)
    op->moveBefore(batch.front());
  call->moveAfter(batch.back());
  if (!isNext)
    budget -= kept;
  batch.push_back(call);
  return true;
}

void Gatherer::mark(Batch &batch) {
  if (batch.size() > 1) {
    for (func::CallOp call : batch)
      call->setAttr(kBatchAttrName, builder.getI64IntegerAttr(next));
    ++next;
  }
  batch.clear();
}

void Gatherer::run() {
  llvm::MapVector<StringAttr, Batch> batches; // by kernel
  SmallVector<func::CallOp> calls(block.getOps<func::CallOp>());
  for (func::CallOp call : calls) {
    Batch &batch = batches[call.getCalleeAttr().getAttr()];
    if (!batch.empty() && join(batch, call))
      continue;
    mark(batch);
    batch.push_back(call);
  }
  for (auto &[kernel, batch] : batches)
    mark(batch);
}

void heddle::gatherLaunches(func::FuncOp program) { Gatherer(program).run(); }
