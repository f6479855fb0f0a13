//===- Alternative.cpp - Another assignment of one op ---------------------===//

#include "Alternative.h"
#include "CommunicationRemarks.h"

using namespace mlir;
using namespace heddle;

Alternative::Alternative(Operation *op, MeshRef mesh)
    : op(op), mesh(mesh), rule(getRule(op)) {
  // An earlier pass has checked the op's factors.
  if (FailureOr<FactorAxes> read = readFactorAxes(op, rule, mesh.mesh);
      succeeded(read))
    known = axes = *read;
}

bool Alternative::assign(const TensorFactors &tensor, ShardingAttr wanted) {
  axes = known;
  if (axes.empty())
    return false;
  for (const DimensionFactors &dim : tensor)
    for (unsigned factor : dim)
      axes[factor].clear();
  for (auto [dim, list] : llvm::zip(tensor, wanted.getDims())) {
    auto lists = distributeAxes(dim, rule, list.getAxes(), mesh.mesh);
    for (auto [factor, mine] : llvm::zip(dim, lists)) {
      if (!mine.empty() && rule.factors[factor].kind == FactorKind::Replicate)
        return false;
      axes[factor] = mine;
    }
  }
  // An axis may split only one factor, or two that meet. If it splits two, a
  // factor of `tensor` keeps it and the other factor loses it.
  while (auto shared = findSharedAxis(rule, axes)) {
    bool second = !ShardingRule::runsOver(tensor, shared->second);
    if (shared->first == shared->second)
      return false;
    llvm::erase(axes[second ? shared->second : shared->first], shared->axis);
  }
  return isRepresentable(rule, axes, mesh.mesh);
}

bool Alternative::changeForOperand(unsigned index, ShardingAttr wanted) {
  return !wanted.isPartial() && assign(rule.operands[index], wanted) &&
         getOperandSharding(rule, axes, index, mesh) == wanted;
}

bool Alternative::changeForResult(unsigned index, ShardingAttr wanted) {
  if (!assign(rule.results[index], wanted))
    return false;
  // The axes of reduced factors remain only where `wanted` is partial. In a
  // ring, which reduces its two factors itself, they remain.
  bool ring = rule.meet && axes[rule.meet->first] == axes[rule.meet->second];
  for (auto [i, factor] : llvm::enumerate(rule.factors))
    if (!(ring && (rule.meet->first == i || rule.meet->second == i)) &&
        (factor.kind == FactorKind::Sum || factor.kind == FactorKind::Max) &&
        !ShardingRule::runsOver(rule.results[index], i))
      llvm::erase_if(axes[i], [&](StringAttr axis) {
        return !llvm::is_contained(wanted.getPartialAxes(), axis);
      });
  return getResultSharding(rule, axes, index, mesh) == wanted;
}

bool Alternative::changeToAvoid(ArrayRef<StringAttr> avoided) {
  axes = known;
  bool ring = rule.meet && !axes.empty() &&
              axes[rule.meet->first] == axes[rule.meet->second];
  for (auto [i, list] : llvm::enumerate(axes))
    if (!(ring && rule.meet->first == i))
      llvm::erase_if(list, [&](StringAttr axis) {
        return llvm::is_contained(avoided, axis);
      });
  return axes != known && isRepresentable(rule, axes, mesh.mesh);
}

std::string Alternative::describe() const {
  StringRef name = getOpName(op);
  std::string text;
  for (auto [i, list] : llvm::enumerate(axes)) {
    if (list == known[i])
      continue;
    // A plan can name only factors that have names.
    if (!name.empty() && rule.factors[i].name.empty())
      return "";
    std::string quoted;
    for (StringAttr axis : list)
      quoted += (quoted.empty() ? "\"" : ", \"") + axis.str() + "\"";
    text += text.empty() ? "\"" : ", \"";
    text += getFactorKey(rule, i);
    text += name.empty() ? "\" = {" : "\": [";
    text += quoted;
    text += name.empty() ? "}" : "]";
  }
  if (text.empty())
    return "";
  if (name.empty())
    return "heddle.factors = #heddle.factors<[" + text + "]>";
  return "\"operators\": {\"" + name.str() + "\": {" + text + "}}";
}

std::string Alternative::describeTraffic(ReshardSequences &sequences,
                                         CollectiveCost exchanged) const {
  CollectiveCost before = exchanged, after;
  auto add = [&](RankedTensorType type, ShardingAttr oldFrom,
                 ShardingAttr oldTo, ShardingAttr newFrom, ShardingAttr newTo) {
    before += sequences.getCost(type, oldFrom, oldTo);
    after += sequences.getCost(type, newFrom, newTo);
  };
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type)
      continue;
    unsigned i = operand.getOperandNumber();
    ShardingAttr need = getOperandSharding(rule, known, i, mesh);
    ShardingAttr newNeed = getOperandSharding(rule, axes, i, mesh);
    if (auto reshard = operand.get().getDefiningOp<ReshardOp>())
      add(type, reshard.getFrom(), reshard.getTo(), reshard.getFrom(),
          need == newNeed ? reshard.getTo() : newNeed);
    else
      add(type, need, need, need, newNeed);
  }
  for (OpResult result : op->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type)
      continue;
    unsigned i = result.getResultNumber();
    ShardingAttr made = getResultSharding(rule, known, i, mesh);
    ShardingAttr newMade = getResultSharding(rule, axes, i, mesh);
    bool isUsedAsMade = false;
    for (Operation *user : result.getUsers()) {
      auto reshard = dyn_cast<ReshardOp>(user);
      isUsedAsMade |= !reshard;
      if (reshard)
        add(type, reshard.getFrom(), reshard.getTo(),
            made == newMade ? reshard.getFrom() : newMade, reshard.getTo());
    }
    if (isUsedAsMade)
      add(type, made, made, newMade, made);
  }
  std::string text = "a device would send " + describeCost(after) + ", not " +
                     describeCost(before);
  return after.seconds < before.seconds ? text : text + ": that gains nothing";
}
