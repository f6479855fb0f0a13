//===- LocalizeControlFlow.cpp - Calls, loops and branches ----------------===//

#include "FunctionLocalizer.h"
#include "heddle/Sharding/ControlFlow.h"

using namespace mlir;
using namespace heddle;

/// Returns the sharding of a callee's argument or result; replicated if it has
/// none.
static ShardingAttr getPortSharding(ShardingAttr given, RankedTensorType type,
                                    MeshRef mesh) {
  return given ? given
               : ShardingAttr::getReplicated(mesh.symbol, type.getRank());
}

LogicalResult FunctionLocalizer::localizeCall(func::CallOp call) {
  FailureOr<func::FuncOp> callee = getCallee(call);
  if (failed(callee))
    return failure();
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
    operands.push_back(locals.lookup(operand));
    if (isa<RankedTensorType>(operand.getType()) &&
        failed(expectDims(
            call, operand,
            callee->getArgAttrOfType<ShardingAttr>(i, kShardingAttrName))))
      return failure();
  }
  // The callee's type is global or local, depending on which function is
  // localized first. So the local types follow from the callee's shardings.
  SmallVector<Type> types;
  SmallVector<ShardingAttr> lie;
  for (OpResult result : call.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    lie.push_back(
        type ? getPortSharding(callee->getResultAttrOfType<ShardingAttr>(
                                   result.getResultNumber(), kShardingAttrName),
                               type, mesh)
             : ShardingAttr());
    types.push_back(type ? lie.back().getLocalType(type, mesh.mesh)
                         : result.getType());
  }
  auto local = builder.create<func::CallOp>(call.getLoc(), call.getCallee(),
                                            types, operands);
  for (auto [global, result, sharding] :
       llvm::zip(call.getResults(), local.getResults(), lie)) {
    auto type = dyn_cast<RankedTensorType>(global.getType());
    set(global, result, sharding,
        type ? unknown(type, sharding) : PaddingOfDims());
  }
  return success();
}

/// Localizes the block of `region` into `local`, with new arguments. Checks
/// that the terminator's operands have their carried shardings.
LogicalResult FunctionLocalizer::localizeRegion(
    Region &region, Region &local,
    const DenseMap<Value, ShardingAttr> &carried) {
  Block &block = region.front();
  Block &body = local.emplaceBlock();
  for (BlockArgument argument : block.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    ShardingAttr sharding = carried.lookup(argument);
    Type localType = type && sharding ? sharding.getLocalType(type, mesh.mesh)
                                      : argument.getType();
    // Padding is not tracked from one iteration to the next, so it is unknown.
    set(argument, body.addArgument(localType, argument.getLoc()), sharding,
        type && sharding ? unknown(type, sharding) : PaddingOfDims());
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&body);
  for (Operation &op : block.without_terminator())
    if (failed(localize(&op)))
      return failure();
  Operation *terminator = block.getTerminator();
  SmallVector<Value> operands;
  for (OpOperand &operand : terminator->getOpOperands()) {
    operands.push_back(locals.lookup(operand.get()));
    if (failed(expectCarried(operand)))
      return failure();
  }
  Operation *end = builder.clone(*terminator);
  end->setOperands(operands);
  return success();
}

LogicalResult FunctionLocalizer::localizeControlFlow(Operation *op) {
  FailureOr<SmallVector<CarriedValue>> values = getCarriedValues(op);
  if (failed(values))
    return failure();
  auto given = op->getAttrOfType<ArrayAttr>(kCarriedAttrName);
  DenseMap<Value, ShardingAttr> carried;
  for (auto [i, entry] : llvm::enumerate(*values)) {
    auto sharding = given && i < given.size() ? dyn_cast<ShardingAttr>(given[i])
                                              : ShardingAttr();
    if (!sharding || sharding.getRank() != entry.getType().getRank())
      return op->emitOpError()
             << "expected " << kCarriedAttrName << " with a sharding of "
             << entry.getType()
             << "; run heddle-propagate-shardings and heddle-insert-reshards "
                "first";
    for (Value value : entry.values)
      carried[value] = sharding;
    for (OpOperand *source : entry.sources)
      carriedBy[source] = sharding;
  }
  SmallVector<Value> operands;
  for (OpOperand &operand : op->getOpOperands()) {
    operands.push_back(locals.lookup(operand.get()));
    if (failed(expectCarried(operand)))
      return failure();
  }
  SmallVector<Type> types;
  for (Value result : op->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    types.push_back(type ? carried[result].getLocalType(type, mesh.mesh)
                         : result.getType());
  }
  OperationState state(op->getLoc(), op->getName(), operands, types,
                       llvm::to_vector(op->getDiscardableAttrs()));
  state.propertiesAttr = op->getPropertiesAsAttribute();
  for (unsigned i = 0; i < op->getNumRegions(); ++i)
    state.addRegion();
  Operation *local = builder.create(state);
  local->removeAttr(kCarriedAttrName);
  for (auto [from, to] : llvm::zip(op->getRegions(), local->getRegions()))
    if (!from.empty() && failed(localizeRegion(from, to, carried)))
      return failure();
  for (auto [global, result] :
       llvm::zip(op->getResults(), local->getResults())) {
    auto type = dyn_cast<RankedTensorType>(global.getType());
    ShardingAttr sharding = carried.lookup(global);
    set(global, result, sharding,
        type ? unknown(type, sharding) : PaddingOfDims());
  }
  return success();
}
