//===- SumRegion.cpp - Work behind sums that could be split ---------------===//

#include "SumRegion.h"
#include "heddle/Sharding/ControlFlow.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

FactorAxes heddle::getSplitFactors(const SumRegion &region, Operation *op,
                                   const OpFactors &factors) {
  FactorAxes axes = factors.find(op)->second.second;
  axes[region.ops.find(op)->second].append(region.axes);
  return axes;
}

/// Returns whether the op visits each element of its largest tensor once. A
/// product or attention visits elements several times.
static bool isCheap(Operation *op, const ShardingRule &rule) {
  double visits = 1, elements = 1;
  for (const Factor &factor : rule.factors)
    visits *= double(factor.size);
  auto see = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      elements = std::max(elements, double(tensor.getNumElements()));
  };
  llvm::for_each(op->getOperandTypes(), see);
  llvm::for_each(op->getResultTypes(), see);
  return visits <= elements;
}

namespace {
/// Grows one region from a sum.
class Grower {
public:
  Grower(const SumBlock &in, const Axes &axes,
         const DenseSet<Operation *> &taken, const DenseSet<Value> &isSum)
      : in(in), taken(taken), isSum(isSum) {
    region.axes = axes;
  }

  void grow(Value sum, unsigned dim);
  SumRegion takeRegion() { return std::move(region); }
  /// Returns the bytes of the tensors that the ops of the region make.
  int64_t getSize() const { return bytes; }
  bool hasProduct() const { return readsProduct; }

private:
  void visit(Value value, unsigned dim);
  void visitOp(Operation *op, const DimensionFactors &dim);
  bool maySplit(Operation *op, const ShardingRule &rule, const FactorAxes &axes,
                unsigned factor) const;

  const SumBlock &in;
  const DenseSet<Operation *> &taken; ///< by other regions
  const DenseSet<Value> &isSum;       ///< over the axes of the region
  SumRegion region;
  DenseSet<Value> seen;
  SmallVector<std::pair<Value, unsigned>> work;
  int64_t bytes = 0;
  bool readsProduct = false;
};
} // namespace

bool Grower::maySplit(Operation *op, const ShardingRule &rule,
                      const FactorAxes &axes, unsigned factor) const {
  const Factor &split = rule.factors[factor];
  if ((split.kind != FactorKind::Parallel && split.kind != FactorKind::Sum) ||
      split.onlyByPlan ||
      split.size %
              (in.mesh.getSize(axes[factor]) * in.mesh.getSize(region.axes)) !=
          0)
    return false;
  FactorAxes after = axes;
  after[factor].append(region.axes);
  if (findSharedAxis(rule, after) ||
      !isRepresentable(rule, after, in.mesh.mesh))
    return false;
  // An accumulator would have to become a partial sum.
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (getOperandSharding(rule, after, i, in.mesh).isPartial())
      return false;
  return true;
}

void Grower::visitOp(Operation *op, const DimensionFactors &dim) {
  auto known = in.factors.find(op);
  if (op->getBlock() != &in.block || taken.contains(op) ||
      region.ops.contains(op) || known == in.factors.end() || !hasFactors(op) ||
      isa<ReshardOp>(op) || op->hasAttr(kPinAttrName) ||
      !isMemoryEffectFree(op))
    return;
  const ShardingRule &rule = known->second.first;
  const FactorAxes &axes = known->second.second;
  if (!isCheap(op, rule))
    return;
  // An op that passes partial sums on leaves one sum where there were several.
  if (llvm::any_of(op->getOperands(),
                   [&](Value operand) { return in.sums.isKept(operand); }))
    return;
  auto *found = llvm::find_if(
      dim, [&](unsigned factor) { return maySplit(op, rule, axes, factor); });
  if (found == dim.end())
    return;
  unsigned factor = *found;
  region.ops[op] = factor;
  auto reach = [&](Value value, const TensorFactors &tensor) {
    for (auto [dim, factors] : llvm::enumerate(tensor))
      if (llvm::is_contained(factors, factor))
        work.emplace_back(value, dim);
  };
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands))
    reach(operand, tensor);
  for (auto [result, tensor] : llvm::zip(op->getResults(), rule.results)) {
    bytes += getBytes(result.getType());
    reach(result, tensor);
  }
}

void Grower::visit(Value value, unsigned dim) {
  if (!seen.insert(value).second)
    return;
  if (isSum.contains(value))
    region.sums[value] = dim;
  else if (Operation *op = value.getDefiningOp())
    if (auto known = in.factors.find(op); known != in.factors.end())
      visitOp(op, known->second.first
                      .results[cast<OpResult>(value).getResultNumber()][dim]);
  // Products that read a weight do not count, because the region does not make
  // weights.
  bool isMade =
      region.sums.contains(value) || region.ops.contains(value.getDefiningOp());
  for (OpOperand &use : value.getUses()) {
    auto known = in.factors.find(use.getOwner());
    if (known == in.factors.end() || !hasFactors(use.getOwner()))
      continue;
    const ShardingRule &rule = known->second.first;
    readsProduct |= isMade && !isCheap(use.getOwner(), rule);
    visitOp(use.getOwner(), rule.operands[use.getOperandNumber()][dim]);
  }
}

void Grower::grow(Value sum, unsigned dim) {
  work.emplace_back(sum, dim);
  while (!work.empty()) {
    auto [value, along] = work.pop_back_val();
    visit(value, along);
  }
}

std::vector<SumRegion> heddle::findSumRegions(const SumBlock &in) {
  llvm::MapVector<AxisListAttr, SmallVector<Value>> sums;
  for (Operation &op : in.block)
    for (Value result : op.getResults()) {
      ArrayRef<StringAttr> axes = in.sums.getPartialAxes(result);
      if (!axes.empty() && in.mesh.getSize(axes) > 1 && !in.sums.isKept(result))
        sums[AxisListAttr::get(op.getContext(), axes)].push_back(result);
    }
  std::vector<SumRegion> regions;
  DenseSet<Operation *> taken;
  for (auto &[axes, values] : sums) {
    DenseSet<Value> left(values.begin(), values.end());
    for (Value sum : values) {
      auto type = cast<RankedTensorType>(sum.getType());
      std::optional<Grower> best;
      for (int64_t dim = 0; left.contains(sum) && dim < type.getRank(); ++dim) {
        Grower grower(in, Axes(axes.getAxes()), taken, left);
        grower.grow(sum, dim);
        if (grower.hasProduct() &&
            grower.getSize() > (best ? best->getSize() : 0))
          best.emplace(std::move(grower));
      }
      if (!best)
        continue;
      SumRegion region = best->takeRegion();
      for (auto [op, factor] : region.ops)
        taken.insert(op);
      for (auto [other, dim] : region.sums)
        left.erase(other);
      regions.push_back(std::move(region));
    }
  }
  return regions;
}
