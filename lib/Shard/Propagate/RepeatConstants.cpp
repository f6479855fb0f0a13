//===- RepeatConstants.cpp - A constant for each use ----------------------===//

#include "RepeatConstants.h"
#include "../SplitOperators/Slices.h"
#include "heddle/Shard/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_REPEATCONSTANTSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Gives each use except the first a copy of its own, before the original.
static void repeatForEachUse(Operation *op) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : op->getResult(0).getUses())
    uses.push_back(&use);
  for (OpOperand *use : llvm::drop_begin(uses))
    use->set(OpBuilder(op).clone(*op)->getResult(0));
}

void heddle::repeatConstants(ModuleOp module) {
  SmallVector<Operation *> shared;
  module.walk([&](Operation *op) {
    if (isFreeTensor(op) && !op->use_empty() && !op->hasOneUse())
      shared.push_back(op);
  });
  for (Operation *op : shared)
    repeatForEachUse(op);
}

namespace {
struct RepeatConstantsPass
    : heddle::impl::RepeatConstantsPassBase<RepeatConstantsPass> {
  void runOnOperation() override {
    if (getMesh(getOperation()))
      repeatConstants(getOperation());
  }
};
} // namespace
