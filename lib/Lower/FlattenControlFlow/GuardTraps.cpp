//===- GuardTraps.cpp - Branches that are computed in vain ----------------===//

#include "GuardTraps.h"
#include "dialects/Interfaces/ScalarBodies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

void lower::guardTraps(scf::IfOp op) {
  for (Region *region : {&op.getThenRegion(), &op.getElseRegion()})
    for (Block &block : *region)
      for (Operation &inner : block)
        for (const Trap &trap : findTraps(&inner)) {
          OpBuilder builder(trap.operand->getOwner());
          Location loc = trap.operand->getOwner()->getLoc();
          Value taken = trap.operand->get();
          Value harmless =
              builder.create<arith::ConstantOp>(loc, getHarmless(trap));
          if (region == &op.getElseRegion())
            std::swap(taken, harmless);
          trap.operand->set(builder.create<arith::SelectOp>(
              loc, op.getCondition(), taken, harmless));
        }
}
