//===- Batches.cpp - Launches that a GPU runs as one ----------------------===//

#include "Batches.h"

using namespace mlir;
using namespace heddle;

/// Returns the launch in front of or behind a launch if it is of the same
/// batch, otherwise null. Index arithmetic may stand between them.
template <typename Next>
static rt::LaunchOp findNeighbour(rt::LaunchOp launch, Next next) {
  Operation *op = next(launch);
  while (op && isMemoryEffectFree(op))
    op = next(op);
  auto other = dyn_cast_or_null<rt::LaunchOp>(op);
  bool isSame = other && other->getAttr(kBatchAttrName) ==
                             launch->getAttr(kBatchAttrName);
  return isSame ? other : rt::LaunchOp();
}

SmallVector<rt::LaunchOp> heddle::getBatch(rt::LaunchOp launch) {
  SmallVector<rt::LaunchOp> batch{launch};
  if (!launch->hasAttr(kBatchAttrName))
    return batch;
  auto before = [](Operation *op) { return op->getPrevNode(); };
  auto behind = [](Operation *op) { return op->getNextNode(); };
  while (rt::LaunchOp other = findNeighbour(batch.back(), before))
    batch.push_back(other);
  std::reverse(batch.begin(), batch.end());
  while (rt::LaunchOp other = findNeighbour(batch.back(), behind))
    batch.push_back(other);
  return batch;
}
