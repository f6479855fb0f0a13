//===- ForwardPass.cpp - The ops that a loss is computed from -------------===//

#include "ForwardPass.h"
#include "JoinedStage.h"
#include "dialects/Heddle/Heddle.h"

using namespace mlir;
using namespace heddle;

llvm::SmallSetVector<Value, 4> heddle::getOutsideInputs(Operation *op) {
  llvm::SmallSetVector<Value, 4> inputs;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (operand.getParentBlock() == op->getBlock())
        inputs.insert(operand);
  });
  return inputs;
}

/// Returns the names of the variables with the role of a loss.
static llvm::DenseSet<StringAttr> findLossVariables(func::FuncOp function) {
  llvm::DenseSet<StringAttr> names;
  if (Operation *table = SymbolTable::getNearestSymbolTable(function))
    for (auto variable : table->getRegion(0).getOps<VariableOp>())
      if (variable.getRole() == VariableRole::Loss)
        names.insert(variable.getSymNameAttr());
  return names;
}

/// Returns the values that hold the loss, or from which later stages compute
/// it.
static SmallVector<Value> findLosses(func::FuncOp function) {
  SmallVector<Value> losses;
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    auto role = function.getResultAttrOfType<PortRoleAttr>(i, kRoleAttrName);
    if (role && (role.getRole() == PortRole::Loss ||
                 role.getRole() == PortRole::LossSum))
      losses.push_back(value);
  }
  llvm::DenseSet<StringAttr> variables = findLossVariables(function);
  for (auto store : block.getOps<StoreOp>())
    if (variables.contains(store.getVariableAttr().getAttr()))
      losses.push_back(store.getValue());
  if (losses.empty())
    losses = getSentForward(function);
  if (!losses.empty() || function->hasAttr(kRoleAttrName))
    return losses;
  for (Value value : terminator->getOperands())
    if (auto type = dyn_cast<RankedTensorType>(value.getType());
        type && type.getRank() == 0 && isa<FloatType>(type.getElementType()))
      return {value};
  return {};
}

ForwardPass::ForwardPass(func::FuncOp function)
    : block(&function.getBody().front()) {
  SmallVector<Operation *> work;
  auto add = [&](Value value) {
    if (Operation *maker = value.getDefiningOp();
        maker && members.insert(maker).second)
      work.push_back(maker);
  };
  llvm::for_each(findLosses(function), add);
  while (!work.empty())
    llvm::for_each(getOutsideInputs(work.pop_back_val()), add);
  for (Operation &op : *block) {
    if (op.getNumResults() > 0 &&
        llvm::all_of(getOutsideInputs(&op),
                     [&](Value v) { return isFree(v); })) {
      free.insert(&op);
      continue;
    }
    if (!members.contains(&op))
      continue;
    indices[&op] = static_cast<int32_t>(ops.size());
    ops.push_back(&op);
  }
}

bool ForwardPass::isFree(Value value) const {
  Operation *maker = value.getDefiningOp();
  return maker && free.contains(maker);
}
