//===- PartialSums.cpp - Values that stay partial sums --------------------===//

#include "heddle/Sharding/PartialSums.h"

using namespace mlir;
using namespace heddle;

PartialSums::Passage PartialSums::passThrough(Operation *op,
                                              const ShardingRule &rule,
                                              const FactorAxes &factors,
                                              bool mayRelease) const {
  if (!rule.defersPartialSums || op->getNumResults() == 0)
    return {};
  // `incomplete`: the partial operands, which must be exactly one linear group.
  SmallVector<unsigned, 2> incomplete;
  llvm::SmallDenseSet<Value, 2> sums;
  Axes axes;
  int64_t bytes = 0, distinctBytes = 0;
  for (OpOperand &operand : op->getOpOperands()) {
    auto known = partial.find(operand.get());
    if (known == partial.end() || !kept.contains(operand.get()))
      continue;
    if (!incomplete.empty() && known->second != axes)
      return {};
    axes = known->second;
    incomplete.push_back(operand.getOperandNumber());
    bytes += getBytes(operand.get().getType());
    if (sums.insert(operand.get()).second)
      distinctBytes += getBytes(operand.get().getType());
  }
  bool isGroup = llvm::any_of(rule.linear, [&](const LinearGroup &group) {
    return group.results.empty() && group.operands == incomplete;
  });
  int64_t resultBytes = 0;
  for (Type type : op->getResultTypes())
    resultBytes += getBytes(type);
  // If the op splits a factor over the axes of the sum, the sum is reduced
  // before the op. But if the op may give up these axes, and its results are
  // smaller than its distinct partial operands together, the sum passes.
  bool isFree = llvm::all_of(factors, [&](const Axes &list) {
    return llvm::none_of(
        list, [&](StringAttr axis) { return llvm::is_contained(axes, axis); });
  });
  bool releases = !isFree && mayRelease && resultBytes < distinctBytes;
  if (!isGroup || !(isFree || releases) || resultBytes > bytes)
    return {};
  return {axes, releases};
}

/// Returns whether the loaded value is only added to, with the sum stored in
/// the variable that it was loaded from.
static bool isAccumulatedTo(LoadOp load) {
  if (!load->hasOneUse())
    return false;
  Operation *sum = *load->user_begin();
  if (sum->getNumResults() != 1 || !sum->hasOneUse())
    return false;
  auto store = dyn_cast<StoreOp>(*sum->user_begin());
  return store && store.getVariableAttr() == load.getVariableAttr();
}

PartialSums::PartialSums(
    Block &block, MeshRef mesh,
    function_ref<FactorAxes(Operation *, const ShardingRule &)> factors,
    function_ref<bool(Operation *)> mayRelease,
    function_ref<Axes(Operation *)> stored) {
  auto order = [&](const Axes &axes) {
    Axes ordered;
    for (MeshAxisAttr axis : mesh.mesh.getAxes())
      if (llvm::is_contained(axes, axis.getName()))
        ordered.push_back(axis.getName());
    return ordered;
  };
  DenseSet<Value> hopeless;
  SmallVector<std::pair<StoreOp, Axes>> stores; // of partial sums
  struct Entry {
    Operation *op;
    ShardingRule rule;
    FactorAxes axes;
    bool mayRelease;
    SmallVector<Axes, 2> own; ///< partial axes of each result by itself
  };
  std::vector<Entry> entries;
  for (Operation &op : block) {
    if (isa<LoadOp, StoreOp>(op)) {
      Axes axes = stored ? order(stored(&op)) : Axes();
      auto load = dyn_cast<LoadOp>(op);
      if (!axes.empty() && !load)
        stores.emplace_back(cast<StoreOp>(op), axes);
      if (axes.empty() || !load)
        continue;
      if (!isAccumulatedTo(load))
        hopeless.insert(load.getResult());
      entries.push_back({&op, {}, {}, false, {axes}});
      continue;
    }
    Entry entry{&op, getRule(&op), {}, mayRelease && mayRelease(&op), {}};
    entry.axes = factors(&op, entry.rule);
    for (unsigned i = 0; i < op.getNumResults(); ++i) {
      Axes own;
      if (isa<RankedTensorType>(op.getResult(i).getType())) {
        ShardingAttr sharding =
            getResultSharding(entry.rule, entry.axes, i, mesh);
        if (sharding.getPartialKind() == ReductionKind::Sum)
          own = Axes(sharding.getPartialAxes());
      }
      entry.own.push_back(own);
    }
    entries.push_back(std::move(entry));
  }

  // Assumes first that every value is passed on as a partial sum. Then takes
  // back wrong assumptions until nothing changes. Each round except the last
  // takes back at least one value.
  for (bool changed = true; changed;) {
    changed = false;
    partial.clear();
    kept.clear();
    released.clear();
    DenseSet<Operation *> passing;
    for (Entry &entry : entries) {
      auto [passed, releases] =
          passThrough(entry.op, entry.rule, entry.axes, entry.mayRelease);
      if (!passed.empty())
        passing.insert(entry.op);
      if (releases)
        released[entry.op] = passed;
      for (auto [result, own] : llvm::zip(entry.op->getResults(), entry.own)) {
        Axes all = own;
        for (StringAttr axis : passed)
          if (!llvm::is_contained(all, axis))
            all.push_back(axis);
        if (all.empty())
          continue;
        partial[result] = order(all);
        if (!hopeless.contains(result))
          kept.insert(result);
      }
    }
    for (auto &[store, axes] : stores)
      if (kept.contains(store.getValue()) &&
          partial.lookup(store.getValue()) == axes)
        passing.insert(store);
    for (Entry &entry : entries)
      for (Value result : entry.op->getResults()) {
        if (!kept.contains(result))
          continue;
        bool passes = llvm::all_of(result.getUsers(), [&](Operation *user) {
          return passing.contains(user);
        });
        if (!passes) {
          hopeless.insert(result);
          changed = true;
        }
      }
  }
}

ArrayRef<StringAttr> PartialSums::getPartialAxes(Value value) const {
  auto known = partial.find(value);
  return known == partial.end() ? ArrayRef<StringAttr>()
                                : ArrayRef<StringAttr>(known->second);
}
