//===- GatherLaunches.cpp - Brings equal launches together ----------------===//

#include "GatherLaunches.h"
#include "../Batches/Batches.h"
#include "../KernelPlan/KernelTarget.h"
#include "ProgramBuffers.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

static bool isView(Operation *op) {
  return op->getNumOperands() > 0 && op->getNumResults() > 0 &&
         isa<RankedTensorType>(op->getResult(0).getType()) &&
         getViewOffset(op->getResult(0));
}

/// Returns the value in whose memory a view lies.
static Value getViewed(Value value) {
  while (Operation *maker = value.getDefiningOp()) {
    if (!isView(maker))
      break;
    value = maker->getOperand(0);
  }
  return value;
}

namespace {

/// Gathers the calls of one program.
class Gatherer {
public:
  explicit Gatherer(func::FuncOp program)
      : block(program.getBody().front()), builder(program.getContext()) {
    int64_t loaded = 0;
    for (auto load : block.getOps<LoadOp>()) {
      loaded += getBytes(load.getType());
      loads[load.getVariableAttr()].push_back(load);
    }
    for (auto store : block.getOps<StoreOp>())
      stores[store.getVariableAttr()].push_back(store);
    budget = loaded / 4;
    laterBudget = loaded / 16;
  }

  void run();

private:
  using Batch = SmallVector<func::CallOp>;
  bool join(Batch &batch, func::CallOp call);
  bool defer(Batch &batch, func::CallOp call);
  void gatherCopies();
  void gatherNear();
  bool canMoveTo(func::CallOp call, Operation *place,
                 llvm::SetVector<Operation *> &moved);
  bool collectMoved(Value value, Operation *place,
                    llvm::SetVector<Operation *> &moved);
  /// Returns whether the load's variable is stored between two ops.
  bool isStoredBetween(Operation *begin, Operation *end, LoadOp load);
  bool isReadBehind(Operation *place, Value value, Operation *except);
  bool isBefore(Operation *op, Operation *user) {
    Operation *ancestor = block.findAncestorOpInBlock(*user);
    return ancestor && op->isBeforeInBlock(ancestor);
  }

  /// Moves an op in front of another one. Unlike Operation::moveBefore(), it
  /// keeps the cached order of the other ops valid, because this class compares
  /// positions of ops often.
  void moveBefore(Operation *op, Block::iterator place) {
    if (Block::iterator(op) == place)
      return;
    op->remove();
    block.getOperations().insert(place, op);
  }

  Block &block;
  Builder builder;
  /// By variable.
  DenseMap<Attribute, SmallVector<LoadOp>> loads;
  DenseMap<Attribute, SmallVector<StoreOp>> stores;
  int64_t budget;      ///< bytes of results that may yet be computed earlier
  int64_t laterBudget; ///< bytes of operands that may yet be kept for later
  llvm::DenseSet<Value> keptForLater;
  std::vector<Batch> batches;
};

} // namespace

bool Gatherer::isStoredBetween(Operation *begin, Operation *end, LoadOp load) {
  return llvm::any_of(stores[load.getVariableAttr()], [&](StoreOp store) {
    return begin->isBeforeInBlock(store) && store->isBeforeInBlock(end);
  });
}

/// Returns whether an op other than `except` reads the value, or a view of it,
/// at `place` or later.
bool Gatherer::isReadBehind(Operation *place, Value value, Operation *except) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isView(user))
      return llvm::any_of(user->getResults(), [&](Value view) {
        return isReadBehind(place, view, except);
      });
    return user != except && !isBefore(user, place);
  });
}

/// Adds to `moved`, in program order, the ops that have to move in front of
/// `place` so that `value` is defined there. Returns false if they cannot move.
bool Gatherer::collectMoved(Value value, Operation *place,
                            llvm::SetVector<Operation *> &moved) {
  Operation *maker = value.getDefiningOp();
  if (!maker || maker->isBeforeInBlock(place) || moved.contains(maker))
    return true;
  auto load = dyn_cast<LoadOp>(maker);
  if (load ? isStoredBetween(place, load, load)
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

/// Moves the call right after the batch, if it can run at the same time.
bool Gatherer::join(Batch &batch, func::CallOp call) {
  int64_t kept = 0;
  for (Value result : call.getResults())
    if (!llvm::all_of(result.getUsers(), llvm::IsaPred<StoreOp>))
      kept += getBytes(result.getType());
  bool isNext = batch.back()->getNextNode() == call.getOperation();
  if (!isNext && kept > budget)
    return false;
  llvm::SetVector<Operation *> moved;
  for (Value operand : call.getOperands())
    if (!collectMoved(operand, batch.front(), moved))
      return false;
  for (Operation *op : moved)
    moveBefore(op, Block::iterator(batch.front()));
  moveBefore(call, std::next(Block::iterator(batch.back())));
  if (!isNext)
    budget -= kept;
  batch.push_back(call);
  return true;
}

/// Moves the calls of the batch in front of the call if all readers of their
/// results come later. The second stages of sums over rows are such calls:
/// their partial sums are small, and only the update reads the sums.
bool Gatherer::defer(Batch &batch, func::CallOp call) {
  int64_t kept = 0;
  llvm::DenseSet<Value> operands;
  for (func::CallOp early : batch) {
    for (Operation *user : early->getUsers())
      if (!isBefore(call, user))
        return false;
    for (Value argument : early.getOperands()) {
      Value operand = getViewed(argument);
      // Arguments live as long as the program.
      if (!isa<RankedTensorType>(operand.getType()) || !operand.getDefiningOp())
        continue;
      if (auto load = operand.getDefiningOp<LoadOp>()) {
        if (isStoredBetween(load, call, load))
          return false;
        continue;
      }
      if (!isReadBehind(call, operand, call) &&
          !keptForLater.contains(operand) && operands.insert(operand).second)
        kept += getBytes(operand.getType());
    }
  }
  if (kept > laterBudget)
    return false;
  laterBudget -= kept;
  keptForLater.insert(operands.begin(), operands.end());
  for (func::CallOp early : batch)
    moveBefore(early, Block::iterator(call));
  batch.push_back(call);
  return true;
}

void Gatherer::gatherCopies() {
  llvm::MapVector<StringAttr, Batch> open; // by kernel
  SmallVector<func::CallOp> calls(block.getOps<func::CallOp>());
  for (func::CallOp call : calls) {
    Batch &batch = open[call.getCalleeAttr().getAttr()];
    if (!batch.empty() && (join(batch, call) || defer(batch, call)))
      continue;
    if (!batch.empty())
      batches.push_back(std::move(batch));
    batch = {call};
  }
  for (auto &[kernel, batch] : open)
    batches.push_back(std::move(batch));
}

/// Returns whether the call can move in front of `place`. It cannot if it
/// updates a variable in place whose old value is read later.
bool Gatherer::canMoveTo(func::CallOp call, Operation *place,
                         llvm::SetVector<Operation *> &moved) {
  llvm::DenseSet<Attribute> stored;
  for (Operation *user : call->getUsers())
    if (auto store = dyn_cast<StoreOp>(user))
      stored.insert(store.getVariableAttr());
  for (Value operand : call.getOperands()) {
    if (!collectMoved(operand, place, moved))
      return false;
  }
  return llvm::none_of(stored, [&](Attribute variable) {
    return llvm::any_of(loads[variable], [&](LoadOp load) {
      return load->isBeforeInBlock(call) &&
             isReadBehind(place, load.getResult(), call);
    });
  });
}

/// Joins batches of different kernels whose places are at most a layer apart.
/// At this distance, live ranges grow only a little.
void Gatherer::gatherNear() {
  // The distance counts all ops except loads, stores and constants.
  int64_t near = lower::KernelTarget::gpu().near, calls = 0;
  DenseMap<Operation *, int64_t> positions;
  for (Operation &op : block)
    positions[&op] =
        isa<LoadOp, StoreOp, arith::ConstantOp>(op) ? calls : ++calls;
  auto positionOf = [&](const Batch &batch) {
    return positions.lookup(batch.front());
  };
  llvm::sort(batches, [&](const Batch &a, const Batch &b) {
    return a.front()->isBeforeInBlock(b.front());
  });
  std::vector<Batch> merged;
  for (Batch &batch : batches) {
    bool isJoined = false;
    for (Batch &early : merged) {
      if (positionOf(batch) - positionOf(early) > near)
        continue;
      llvm::SetVector<Operation *> moved;
      if (!llvm::all_of(batch, [&](func::CallOp call) {
            return canMoveTo(call, early.front(), moved);
          }))
        continue;
      for (Operation *op : moved)
        moveBefore(op, Block::iterator(early.front()));
      for (func::CallOp call : batch) {
        moveBefore(call, std::next(Block::iterator(early.back())));
        early.push_back(call);
      }
      isJoined = true;
      break;
    }
    if (!isJoined)
      merged.push_back(std::move(batch));
  }
  batches = std::move(merged);
}

void Gatherer::run() {
  gatherCopies();
  gatherNear();
  int64_t next = 0;
  for (Batch &batch : batches) {
    if (batch.size() == 1)
      continue;
    for (func::CallOp call : batch)
      call->setAttr(kBatchAttrName, builder.getI64IntegerAttr(next));
    ++next;
  }
}

void heddle::gatherLaunches(func::FuncOp program) { Gatherer(program).run(); }
