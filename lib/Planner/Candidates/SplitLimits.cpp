//===- SplitLimits.cpp - What axes have to divide -------------------------===//

#include "SplitLimits.h"
#include "dialects/Heddle/Heddle.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace heddle;

/// If the axis does not divide the groups, it is cut in two. One part splits
/// the groups, the other the heads of each group.
bool SplitLimits::canSplitHeads(int64_t parts) const {
  return llvm::all_of(heads, [&](auto of) {
    auto [groups, members] = of;
    return groups % parts == 0 ||
           (parts % groups == 0 && members % (parts / groups) == 0);
  });
}

bool SplitLimits::canSplitTensor(int64_t parts) const {
  if (parts == 1)
    return true;
  if (features.empty() && heads.empty() && vocabularies.empty())
    return false;
  for (int64_t size : features)
    if (size % parts != 0)
      return false;
  if (!canSplitHeads(parts))
    return false;
  for (int64_t size : vocabularies)
    if (size < parts)
      return false;
  return true;
}

bool SplitLimits::canSplitSequence(int64_t parts) const {
  if (parts == 1)
    return true;
  return !sequences.empty() && llvm::all_of(sequences, [&](int64_t size) {
    return size % parts == 0;
  });
}

bool SplitLimits::canSplitContext(ContextParallelism kind, int64_t context,
                                  int64_t tensor) const {
  if (context == 1)
    return true;
  switch (kind) {
  case ContextParallelism::Gather:
    return canSplitSequence(context);
  case ContextParallelism::Ring:
    // A causal ring exchanges two chunks of each device.
    return canSplitSequence(2 * context);
  case ContextParallelism::Heads:
    // Only a single axis is cut into one for the groups and one for the heads
    // of each group.
    return canSplitSequence(context) &&
           (tensor == 1 ? canSplitHeads(context)
                        : llvm::all_of(heads, [&](auto of) {
                            return of.first % (context * tensor) == 0;
                          }));
  }
  llvm_unreachable("unknown kind of context parallelism");
}

SplitLimits heddle::getSplitLimits(ModuleOp module) {
  SplitLimits limits;
  auto note = [](auto &list, auto entry) {
    if (!llvm::is_contained(list, entry))
      list.push_back(entry);
  };
  module.walk([&](ShardingRuleOpInterface op) {
    if (getOpName(op).empty())
      return;
    ShardingRule rule = op.getShardingRule();
    for (const Factor &factor : rule.factors) {
      if (factor.kind == FactorKind::Replicate)
        continue;
      limits.hasBatch |= factor.role == FactorRole::Batch;
      if (factor.role == FactorRole::Features)
        note(limits.features, factor.size);
      else if (factor.role == FactorRole::Vocabulary)
        note(limits.vocabularies, factor.size);
      else if (factor.role == FactorRole::Sequence && rule.meet)
        note(limits.sequences, factor.size);
    }
    if (auto groups = rule.getFactor(FactorRole::Groups)) {
      auto members = rule.getFactor(FactorRole::GroupMembers);
      // Operators of one head alone (keys of grouped queries) say nothing about
      // the heads of a group.
      if (members || rule.meet)
        note(limits.heads,
             std::pair(rule.factors[*groups].size,
                       members ? rule.factors[*members].size : int64_t(1)));
    }
  });
  limits.hasBackward =
      !module.getOps<VariableOp>().empty() &&
      llvm::any_of(module.getOps<VariableOp>(), [](VariableOp variable) {
        return variable.getRole() == VariableRole::Gradient ||
               variable.getRole() == VariableRole::OptimizerState;
      });
  return limits;
}
