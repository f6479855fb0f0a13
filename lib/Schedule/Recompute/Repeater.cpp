//===- Repeater.cpp - Writes what is computed again -----------------------===//

#include "Repeater.h"
#include "../LiveBytes.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Support/Bytes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace heddle;

/// A value that depends on no data is kept, and never computed again, if it has
/// at most this many bytes.
static constexpr int64_t kFewBytes = 4096;

void Repeater::repeat(ArrayRef<int32_t> indices) {
  SmallVector<Operation *> ops;
  for (int32_t index : indices)
    ops.push_back(forward.getOps()[index]);
  llvm::EquivalenceClasses<Operation *> groups;
  llvm::DenseSet<Operation *> all(ops.begin(), ops.end());
  for (Operation *op : ops) {
    groups.insert(op);
    for (Value input : getOutsideInputs(op))
      if (Operation *maker = input.getDefiningOp(); all.contains(maker))
        groups.unionSets(maker, op);
  }
  llvm::MapVector<Operation *, SmallVector<Operation *>> members;
  for (Operation *op : ops)
    members[groups.getLeaderValue(op)].push_back(op);
  for (auto &[leader, group] : members)
    repeatGroup(group);
}

SmallVector<Operation *> Repeater::findReaders(ArrayRef<Operation *> group) {
  llvm::SmallSetVector<Operation *, 8> readers;
  for (Operation *op : group)
    for (Operation *user : op->getUsers())
      if (Operation *owner = forward.getOwner(user);
          forward.getIndex(owner) < 0 && group.back()->isBeforeInBlock(owner) &&
          !owner->hasTrait<OpTrait::IsTerminator>())
        readers.insert(owner);
  SmallVector<Operation *> sorted = readers.takeVector();
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

Value Repeater::findGradient(ArrayRef<Operation *> readers, Operation *place) {
  auto isGradient = [&](Value value) {
    Operation *maker = value.getDefiningOp();
    return maker && getBytes(value.getType()) > 0 && !forward.contains(maker) &&
           !forward.isFree(value) && maker->isBeforeInBlock(place);
  };
  for (Operation *reader : readers)
    for (Value input : getOutsideInputs(reader)) {
      if (!isGradient(input))
        continue;
      // The copies need not wait for a collective that brings the gradient:
      // they can run beside it.
      while (true) {
        Operation *maker = input.getDefiningOp();
        if (!maker->hasTrait<comm::Collective>() && !isView(maker))
          return input;
        if (!isGradient(maker->getOperand(0)))
          return input;
        input = maker->getOperand(0);
      }
    }
  for (Operation *op = place->getPrevNode(); op; op = op->getPrevNode())
    for (Value result : op->getResults())
      if (isGradient(result))
        return result;
  return nullptr;
}

ValueRange Repeater::makeBarrier(ValueRange values) {
  if (values.empty())
    return values;
  auto barrier =
      builder.create<BarrierOp>(values.front().getLoc(), values,
                                gradient ? ValueRange(gradient) : ValueRange());
  return barrier.getResults();
}

/// Returns whether the value depends on a variable, and not on constants alone.
static bool dependsOnVariable(Value value) {
  Operation *maker = value.getDefiningOp();
  return maker && (isa<LoadOp>(maker) ||
                   llvm::any_of(getOutsideInputs(maker), dependsOnVariable));
}

bool Repeater::isAtHand(Value value) const {
  if (getBytes(value.getType()) <= kFewBytes || value.getDefiningOp<LoadOp>() ||
      !dependsOnVariable(value))
    return true;
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    Operation *owner = forward.getOwner(user);
    return owner->getNumResults() > 0 && !forward.contains(owner) &&
           !forward.isFree(owner->getResult(0));
  });
}

Value Repeater::getFree(Value value) {
  if (isAtHand(value))
    return value;
  Operation *maker = value.getDefiningOp();
  if (isView(maker) && getFree(maker->getOperand(0)) == maker->getOperand(0))
    return value;
  auto [known, isNew] = freeCopies.try_emplace(value, value);
  if (!isNew)
    return known->second;
  Value copy = copyFree(maker, value);
  freeCopies[value] = copy;
  return copy;
}

Value Repeater::copyFree(Operation *maker, Value value) {
  Operation *same = nullptr;
  if (maker->hasTrait<comm::Collective>()) {
    same = gathers.find(maker);
    if (same && same->isBeforeInBlock(&*builder.getInsertionPoint()))
      return same->getResult(0);
    if (!same && !communicates)
      return value;
  }
  IRMapping mapping;
  for (Value input : getOutsideInputs(maker)) {
    Value copy = getFree(input);
    // Behind a barrier, so that the copy is not merged with the original. It
    // waits for no gradient: schedules limit how far gathers run ahead.
    if (copy == input && getBytes(input.getType()) > 0)
      copy = builder.create<BarrierOp>(input.getLoc(), input, ValueRange())
                 .getResult(0);
    mapping.map(input, copy);
  }
  Operation *copied = builder.clone(*maker, mapping);
  ++numRepeated;
  if (maker->hasTrait<comm::Collective>())
    gathers.addCopy(maker, copied);
  if (same) {
    same->getResult(0).replaceAllUsesWith(copied->getResult(0));
    gathers.remove(same);
    replaced.push_back(same);
  }
  return copied->getResult(cast<OpResult>(value).getResultNumber());
}

void Repeater::repeatGroup(ArrayRef<Operation *> group) {
  SmallVector<Operation *> readers = findReaders(group);
  if (readers.empty())
    return;
  builder.setInsertionPoint(readers.front());
  gradient = findGradient(readers, readers.front());
  freeCopies.clear();

  llvm::DenseSet<Operation *> members(group.begin(), group.end());
  llvm::SmallSetVector<Value, 8> kept;
  for (Operation *op : group)
    for (Value input : getOutsideInputs(op))
      if (getBytes(input.getType()) > 0 && !forward.isFree(input) &&
          !members.contains(input.getDefiningOp()))
        kept.insert(input);
  IRMapping mapping;
  mapping.map(kept.getArrayRef(), makeBarrier(kept.getArrayRef()));
  for (Operation *op : group) {
    for (Value input : getOutsideInputs(op))
      if (forward.isFree(input) && !mapping.contains(input))
        mapping.map(input, getFree(input));
    builder.clone(*op, mapping);
    ++numRepeated;
  }
  for (Operation *op : group)
    for (Value result : op->getResults())
      result.replaceUsesWithIf(mapping.lookup(result), [&](OpOperand &use) {
        Operation *owner = forward.getOwner(use.getOwner());
        return llvm::is_contained(readers, owner);
      });
}

void Repeater::finish() {
  for (Operation *op : replaced)
    op->erase();
  replaced.clear();
}
