//===- ReadAsStored.cpp - Axes of an op that reads a variable -------------===//

#include "ReadAsStored.h"

using namespace mlir;
using namespace heddle;

std::optional<FactorAxes> heddle::readAsStored(const ShardingRule &rule,
                                               FactorAxes axes, unsigned index,
                                               ShardingAttr storage,
                                               MeshRef mesh) {
  DimensionAxes stored = getDimensions(storage);
  for (auto [dim, wanted] : llvm::enumerate(stored)) {
    const DimensionFactors &factors = rule.operands[index][dim];
    if (factors.size() != 1) {
      if (wanted.empty())
        continue;
      return std::nullopt;
    }
    for (StringAttr axis : wanted) {
      for (Axes &others : axes)
        llvm::erase(others, axis);
      axes[factors.front()].push_back(axis);
    }
  }
  for (auto [factor, split] : llvm::enumerate(axes))
    if (!split.empty() && rule.factors[factor].kind == FactorKind::Replicate)
      return std::nullopt;
  if (findSharedAxis(rule, axes) || !isRepresentable(rule, axes, mesh.mesh) ||
      getOperandSharding(rule, axes, index, mesh) != storage)
    return std::nullopt;
  return axes;
}
