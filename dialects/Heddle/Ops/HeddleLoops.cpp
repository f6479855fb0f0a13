//===- HeddleLoops.cpp - Loops of a device's program ----------------------===//

#include "dialects/Heddle/Heddle.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace heddle;

static LogicalResult verifyCallee(WhileOp op, FlatSymbolRefAttr symbol,
                                  TypeRange arguments, TypeRange results,
                                  SymbolTableCollection &tables) {
  auto callee = tables.lookupNearestSymbolFrom<FunctionOpInterface>(op, symbol);
  if (!callee || callee.isExternal() || !callee.isPrivate())
    return op.emitOpError()
           << "expected " << symbol
           << " to be a private function with a body in this module";
  if (TypeRange(callee.getArgumentTypes()) == arguments &&
      TypeRange(callee.getResultTypes()) == results)
    return success();
  return op.emitOpError() << "expected " << symbol << " to be of type ("
                          << arguments << ") -> (" << results << "), got ("
                          << callee.getArgumentTypes() << ") -> ("
                          << callee.getResultTypes() << ")";
}

// before: (carried, captured) -> (condition, results)
// after: (results, captured) -> carried
LogicalResult WhileOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto followed = [](TypeRange types, TypeRange by) {
    SmallVector<Type> all(types);
    llvm::append_range(all, by);
    return all;
  };
  TypeRange carried = getCarried().getTypes(),
            results = getResults().getTypes(),
            captured = getCaptured().getTypes();
  if (getInits().getTypes() != carried)
    return emitOpError() << "expected to carry values of the initial types, ("
                         << getInits().getTypes() << "), got (" << carried
                         << ")";
  return success(
      succeeded(verifyCallee(
          *this, getBeforeAttr(), followed(carried, captured),
          followed(TypeRange(getCondition().getType()), results), tables)) &&
      succeeded(verifyCallee(*this, getAfterAttr(), followed(results, captured),
                             carried, tables)));
}
