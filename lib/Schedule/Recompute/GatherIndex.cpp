//===- GatherIndex.cpp - Gathers of the backward pass ---------------------===//

#include "GatherIndex.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"

using namespace mlir;
using namespace heddle;

/// Returns whether two values are equal because they come from the same
/// variables and constants in the same way.
static bool areEqual(Value a, Value b) {
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || x->getName() != y->getName() || x->getNumRegions() != 0 ||
      x->getAttrDictionary() != y->getAttrDictionary() ||
      x->getNumOperands() != y->getNumOperands() ||
      x->getResultTypes() != y->getResultTypes() ||
      cast<OpResult>(a).getResultNumber() !=
          cast<OpResult>(b).getResultNumber())
    return false;
  return llvm::all_of(llvm::zip(x->getOperands(), y->getOperands()),
                      [](auto pair) {
                        auto [first, second] = pair;
                        return areEqual(first, second);
                      });
}

GatherIndex::GatherIndex(const ForwardPass &forward) {
  for (Operation &op : forward.getBlock())
    if (op.hasTrait<comm::Collective>() && !forward.contains(&op) &&
        forward.isFree(op.getResult(0)))
      gathers[getHash(&op)].push_back(&op);
}

size_t GatherIndex::getHash(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return hash_value(value);
  if (auto barrier = result.getDefiningOp<BarrierOp>())
    return getHash(barrier.getValues()[result.getResultNumber()]);
  return llvm::hash_combine(getHash(result.getOwner()),
                            result.getResultNumber());
}

size_t GatherIndex::getHash(Operation *op) {
  if (auto known = hashes.find(op); known != hashes.end())
    return known->second;
  llvm::hash_code hash = llvm::hash_combine(op->getName().getAsOpaquePointer(),
                                            op->getAttrDictionary());
  for (Value operand : op->getOperands())
    hash = llvm::hash_combine(hash, getHash(operand));
  return hashes[op] = hash;
}

Operation *GatherIndex::find(Operation *gather) {
  auto known = gathers.find(getHash(gather));
  if (known == gathers.end())
    return nullptr;
  Operation *first = nullptr;
  for (Operation *other : known->second)
    if (areEqual(gather->getResult(0), other->getResult(0)) &&
        (!first || other->isBeforeInBlock(first)))
      first = other;
  return first;
}

void GatherIndex::addCopy(Operation *gather, Operation *copy) {
  size_t hash = hashes[copy] = getHash(gather);
  gathers[hash].push_back(copy);
}

void GatherIndex::remove(Operation *gather) {
  llvm::erase(gathers[getHash(gather)], gather);
}
