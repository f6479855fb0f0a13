//===- ShardingRule.cpp - The loops of an op over its tensors -------------===//

#include "dialects/Interfaces/ShardingRule.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace heddle {

std::optional<unsigned> ShardingRule::getFactor(StringRef name) const {
  for (unsigned i = 0; i < factors.size(); ++i)
    if (!name.empty() && factors[i].name == name)
      return i;
  return std::nullopt;
}

std::optional<unsigned> ShardingRule::getFactor(FactorRole role) const {
  for (unsigned i = 0; i < factors.size(); ++i)
    if (factors[i].role == role)
      return i;
  return std::nullopt;
}

FactorRole getConventionalRole(StringRef name) {
  return llvm::StringSwitch<FactorRole>(name)
      .Case("b", FactorRole::Batch)
      .Case("s", FactorRole::Sequence)
      .Case("n", FactorRole::Groups)
      .Case("r", FactorRole::GroupMembers)
      .Case("f", FactorRole::Features)
      .Case("v", FactorRole::Vocabulary)
      .Default(FactorRole::None);
}

unsigned ShardingRule::addFactor(StringRef name, int64_t size,
                                 FactorKind kind) {
  Factor &factor = factors.emplace_back();
  factor.name = name.str();
  factor.size = size;
  factor.kind = kind;
  factor.role = getConventionalRole(name);
  return factors.size() - 1;
}

ShardingRule ShardingRule::elementwise(Operation *op) {
  ShardingRule rule;
  RankedTensorType shape;
  for (Type type :
       llvm::concat<const Type>(SmallVector<Type>(op->getResultTypes()),
                                SmallVector<Type>(op->getOperandTypes())))
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (!shape || tensor.getRank() > shape.getRank())
        shape = tensor;
  if (shape)
    for (int64_t size : shape.getShape())
      rule.addFactor("", size, FactorKind::Parallel);
  auto factorsOf = [&](Type type) {
    TensorFactors dims;
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && shape && tensor.getRank() == shape.getRank())
      for (unsigned i = 0; i < shape.getRank(); ++i)
        dims.push_back({i});
    return dims;
  };
  for (Type type : op->getOperandTypes())
    rule.operands.push_back(factorsOf(type));
  for (Type type : op->getResultTypes())
    rule.results.push_back(factorsOf(type));
  return rule;
}

bool ShardingRule::runsOver(const TensorFactors &tensor, unsigned factor) {
  return llvm::any_of(tensor, [&](const DimensionFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

SmallVector<Value> localizeByCloning(Operation *op, Localizer &localizer) {
  return localizeByCloning(op, localizer, localizer.operands);
}

SmallVector<Value> localizeByCloning(Operation *op, Localizer &localizer,
                                     ValueRange operands) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(localizer.resultTypes);
  state.attributes = op->getDiscardableAttrDictionary();
  state.propertiesAttr = op->getPropertiesAsAttribute();
  for (Region &region : op->getRegions()) {
    IRMapping mapping;
    region.cloneInto(state.addRegion(), mapping);
  }
  Operation *local = localizer.builder.create(state);
  return SmallVector<Value>(local->getResults());
}

} // namespace heddle
