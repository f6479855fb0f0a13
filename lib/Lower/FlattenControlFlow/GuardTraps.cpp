//===- GuardTraps.cpp - Makes untaken branches harmless -------------------===//

#include "GuardTraps.h"
#include "dialects/Interfaces/ScalarBodies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

/// Builds a select for an op in `branch`: `taken` if `op` takes that branch,
/// else `otherwise`.
static Value chooseIfTaken(OpBuilder &builder, Location loc, scf::IfOp op,
                           Region &branch, Value taken, Value otherwise) {
  if (&branch == &op.getElseRegion())
    std::swap(taken, otherwise);
  return builder.create<arith::SelectOp>(loc, op.getCondition(), taken,
                                         otherwise);
}

void lower::guardTraps(scf::IfOp op) {
  for (Region *region : {&op.getThenRegion(), &op.getElseRegion()})
    for (Block &block : *region)
      for (Operation &inner : block)
        for (const Trap &trap : findTraps(&inner)) {
          OpBuilder builder(trap.operand->getOwner());
          Location loc = trap.operand->getOwner()->getLoc();
          Value harmless =
              builder.create<arith::ConstantOp>(loc, getHarmless(trap));
          trap.operand->set(chooseIfTaken(builder, loc, op, *region,
                                          trap.operand->get(), harmless));
        }
}

/// Returns whether the value is constant once the loops around it are unrolled.
static bool isKnown(Value value) {
  SmallVector<Value> open = {value};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    ValueRange from;
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      if (!loop || argument != loop.getInductionVar())
        return false;
      from = loop->getOperands().take_front(3); // bounds and step
    } else {
      Operation *op = next.getDefiningOp();
      if (!isPure(op) || op->getNumRegions() != 0 ||
          (op->getNumOperands() == 0 && !op->hasTrait<OpTrait::ConstantLike>()))
        return false;
      from = op->getOperands();
    }
    for (Value operand : from)
      if (seen.insert(operand).second)
        open.push_back(operand);
  }
  return true;
}

void lower::guardLoops(scf::IfOp op) {
  for (Region *region : {&op.getThenRegion(), &op.getElseRegion()})
    region->walk([&](Operation *inner) {
      OpBuilder builder(inner);
      Location loc = inner->getLoc();
      if (auto end = dyn_cast<scf::ConditionOp>(inner)) {
        Value stop = builder.create<arith::ConstantIntOp>(loc, 0, 1);
        end.getConditionMutable().assign(
            chooseIfTaken(builder, loc, op, *region, end.getCondition(), stop));
      } else if (auto loop = dyn_cast<scf::ForOp>(inner);
                 loop &&
                 !llvm::all_of(loop->getOperands().take_front(3), isKnown)) {
        loop.setUpperBound(chooseIfTaken(builder, loc, op, *region,
                                         loop.getUpperBound(),
                                         loop.getLowerBound()));
      }
    });
}
