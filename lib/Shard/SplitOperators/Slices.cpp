//===- Slices.cpp - Finds the values that come in slices ------------------===//

#include "Slices.h"
#include "../Explain/ShardingExplainer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

RankedTensorType heddle::getSliceType(Type type, const Cut &cut,
                                      int64_t slice) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[cut.dim] = cut.getSize(slice);
  return tensor.clone(shape);
}

bool heddle::isFreeTensor(Operation *op) {
  if (op->getNumResults() != 1 || !isPure(op) || !getOpName(op).empty())
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || type.getRank() == 0 || !isa<ShardingRuleOpInterface>(op))
    return false;
  return llvm::all_of(op->getOperandTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return !tensor || tensor.getRank() == 0;
  });
}

std::optional<Cut> Slices::getCut(Value value) const {
  auto known = values.find(value);
  return known == values.end() ? std::nullopt : std::optional(known->second);
}

std::optional<Cut> Slices::getCutOfResult(Operation *op) const {
  if (auto store = dyn_cast<StoreOp>(op)) {
    auto known = variables.find(store.getVariableAttr().getAttr());
    return known == variables.end() ? std::nullopt
                                    : std::optional(known->second.cut);
  }
  return op->getNumResults() == 1 ? getCut(op->getResult(0)) : std::nullopt;
}

void Slices::mark(Value value, const Cut &cut) {
  // A tensor made of scalars is made anew for each use.
  if (Operation *maker = value.getDefiningOp(); maker && isFreeTensor(maker))
    return;
  if (values.try_emplace(value, cut).second)
    worklist.push_back(value);
}

LogicalResult Slices::cut(VariableOp variable, const Cut &cut,
                          std::optional<int64_t> sharded, Operation *cause) {
  auto [known, isNew] = variables.insert(
      {variable.getSymNameAttr(), Variable{variable, cut, sharded, cause}});
  Variable &present = known->second;
  if (!isNew) {
    if (present.cut == cut && (!sharded || sharded == present.sharded))
      return success();
    auto diag = cause->emitOpError()
                << describeOp(cause) << ": expected @" << variable.getSymName()
                << " to be cut in one way, got " << cut.slices
                << " slices of dimension " << cut.dim;
    if (sharded)
      diag << " (" << *sharded << " sharded)";
    diag.attachNote(present.cause->getLoc())
        << describeOp(present.cause) << " wants " << present.cut.slices
        << " slices of dimension " << present.cut.dim
        << (present.sharded
                ? " (" + std::to_string(*present.sharded) + " sharded)"
                : std::string());
    return diag;
  }
  if (variable.getSliceAttr())
    return cause->emitOpError() << "expected @" << variable.getSymName()
                                << " to be whole, got a slice of "
                                << variable.getSliceAttr().getOf();
  for (Operation *access : accesses[variable.getSymNameAttr()]) {
    auto function = dyn_cast<func::FuncOp>(access->getParentOp());
    if (!function || !llvm::hasSingleElement(function.getBody()))
      return access->emitOpError()
             << "expected @" << variable.getSymName()
             << ", which runs in slices, to be loaded and stored by functions "
                "of one block, outside of control flow";
    mark(isa<LoadOp>(access) ? access->getResult(0) : access->getOperand(0),
         cut);
  }
  return success();
}

LogicalResult Slices::readOp(Operation *op, SplitAttr split) {
  ShardingRule rule = getRule(op);
  std::optional<unsigned> factor = rule.getFactor(split.getFactor().getValue());
  if (!factor)
    return op->emitOpError()
           << describeOp(op) << ": expected a factor to run in slices of, got "
           << split.getFactor();
  int64_t size = rule.factors[*factor].size;
  if (size < split.getSlices())
    return op->emitOpError()
           << describeOp(op) << ": expected at most " << size
           << " slices of factor " << split.getFactor().getValue()
           << ", its size, got " << split.getSlices();
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    LoadOp load = findLoad(operand);
    if (!load)
      continue;
    for (auto [dim, factors] : llvm::enumerate(rule.operands[i])) {
      if (factors.size() != 1 || factors[0] != *factor)
        continue;
      auto variable = module.lookupSymbol<VariableOp>(load.getVariable());
      if (!variable || variable.getRole() != VariableRole::Parameter)
        continue;
      served.insert(getOpName(op));
      if (failed(cut(variable, {int64_t(dim), size, split.getSlices()},
                     split.getSharded(), op)))
        return failure();
    }
  }
  return success();
}

LogicalResult Slices::spreadToVariable(Operation *access, const Cut &value) {
  auto symbol = isa<LoadOp>(access) ? cast<LoadOp>(access).getVariableAttr()
                                    : cast<StoreOp>(access).getVariableAttr();
  auto variable = module.lookupSymbol<VariableOp>(symbol.getValue());
  if (!variable)
    return access->emitOpError() << "expected a variable of this module";
  return cut(variable, value, std::nullopt, access);
}

LogicalResult Slices::spread(Value value) {
  Cut cut = values.lookup(value);
  auto visit = [&](Operation *op) -> LogicalResult {
    if (isa<LoadOp, StoreOp>(op))
      return spreadToVariable(op, cut);
    // Control flow reads whole values.
    if (!isa<func::FuncOp>(op->getParentOp()) ||
        !op->hasTrait<OpTrait::Elementwise>() ||
        !isa<ShardingRuleOpInterface>(op))
      return success();
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(value.getType()).getShape();
    auto markLike = [&](Value other) {
      auto type = dyn_cast<RankedTensorType>(other.getType());
      if (type && type.getShape() == shape)
        mark(other, cut);
    };
    llvm::for_each(op->getOperands(), markLike);
    llvm::for_each(op->getResults(), markLike);
    return success();
  };
  if (Operation *maker = value.getDefiningOp(); maker && failed(visit(maker)))
    return failure();
  for (Operation *user : value.getUsers())
    if (failed(visit(user)))
      return failure();
  return success();
}

LogicalResult Slices::find(ModuleOp where) {
  module = where;
  SmallVector<std::pair<Operation *, SplitAttr>> splits;
  module.walk([&](Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op))
      accesses[load.getVariableAttr().getAttr()].push_back(op);
    if (auto store = dyn_cast<StoreOp>(op))
      accesses[store.getVariableAttr().getAttr()].push_back(op);
    if (auto split = op->getAttrOfType<SplitAttr>(kSplitAttrName))
      splits.emplace_back(op, split);
  });
  for (auto [op, split] : splits) {
    auto function = dyn_cast<func::FuncOp>(op->getParentOp());
    if (!function || !llvm::hasSingleElement(function.getBody()))
      return op->emitOpError() << describeOp(op)
                               << ": expected an op that runs in slices to "
                                  "be in a function of one block";
  }
  for (auto [op, split] : splits)
    if (failed(readOp(op, split)))
      return failure();
  for (auto [op, split] : splits)
    if (!served.contains(getOpName(op)))
      return op->emitOpError()
             << describeOp(op) << ": cannot run in slices of "
             << split.getFactor().getValue()
             << ": it runs over no parameter that the operator reads";
  while (!worklist.empty())
    if (failed(spread(worklist.pop_back_val())))
      return failure();
  return success();
}
