//===- StatedFactors.cpp - What ops and variables state -------------------===//

#include "heddle/Sharding/StatedFactors.h"
#include "heddle/Sharding/ControlFlow.h"

using namespace mlir;
using namespace heddle;

FailureOr<OpFactors> heddle::readOpFactors(func::FuncOp function,
                                           MeshAttr mesh) {
  OpFactors factors;
  LogicalResult status = success();
  forEachOp(function, [&](Operation *op) {
    ShardingRule rule = getRule(op);
    FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh);
    if (failed(axes))
      status = failure();
    else
      factors[op] = {std::move(rule), std::move(*axes)};
  });
  if (failed(status))
    return failure();
  return factors;
}

ShardingAttr heddle::getStorage(Operation *access,
                                SymbolTableCollection &tables) {
  auto load = dyn_cast<LoadOp>(access);
  auto variable = tables.lookupNearestSymbolFrom<VariableOp>(
      access,
      load ? load.getVariableAttr() : cast<StoreOp>(access).getVariableAttr());
  return variable ? variable.getStorageAttr() : ShardingAttr();
}

LoadOp heddle::getNarrowedLoad(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1 ||
      !OpTrait::hasElementwiseMappableTraits(op))
    return {};
  auto load = op->getOperand(0).getDefiningOp<LoadOp>();
  if (!load || getBytes(op->getResult(0).getType()) >= getBytes(load.getType()))
    return {};
  return load;
}

PartialSums heddle::getStatedPartialSums(Block &block, MeshRef mesh,
                                         const OpFactors &factors,
                                         SymbolTableCollection &tables) {
  return PartialSums(
      block, mesh,
      [&](Operation *op, const ShardingRule &) {
        return factors.find(op)->second.second;
      },
      /*mayRelease=*/nullptr,
      [&](Operation *access) {
        ShardingAttr storage = getStorage(access, tables);
        return storage ? Axes(storage.getPartialAxes()) : Axes();
      });
}
