//===- FactorShardings.cpp - From axes of factors to shardings ------------===//

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

MeshRef heddle::getMesh(ModuleOp module) {
  for (auto mesh : module.getOps<MeshOp>())
    return {FlatSymbolRefAttr::get(mesh.getSymNameAttr()), mesh.getMesh()};
  return {};
}

/// Returns whether the shapes of all tensor operands and results are static.
static bool hasStaticShapes(Operation *op) {
  auto isStatic = [](Type type) {
    auto tensor = dyn_cast<TensorType>(type);
    return !tensor || tensor.hasStaticShape();
  };
  return llvm::all_of(op->getOperandTypes(), isStatic) &&
         llvm::all_of(op->getResultTypes(), isStatic);
}

/// Keeps a result from being a partial sum and a partial maximum at once,
/// because a device can hold only one of them. If a rule reduces a result in
/// both ways, the factors of maxima must stay whole.
static void keepToOneReduction(ShardingRule &rule) {
  for (const TensorFactors &result : rule.results) {
    auto reduces = [&](unsigned factor, FactorKind kind) {
      return rule.factors[factor].kind == kind &&
             !ShardingRule::runsOver(result, factor);
    };
    auto factors = llvm::seq<unsigned>(0, rule.factors.size());
    if (llvm::none_of(factors,
                      [&](unsigned i) { return reduces(i, FactorKind::Sum); }))
      continue;
    for (unsigned i : factors)
      if (reduces(i, FactorKind::Max))
        rule.factors[i].kind = FactorKind::Replicate;
  }
}

ShardingRule heddle::getRule(Operation *op) {
  ShardingRule rule;
  // An op with dynamic shapes gets a rule without factors, so it stays whole.
  if (auto shardable = dyn_cast<ShardingRuleOpInterface>(op);
      shardable && hasStaticShapes(op))
    rule = shardable.getShardingRule();
  auto complete = [](SmallVectorImpl<TensorFactors> &tensors, TypeRange types) {
    tensors.resize(types.size());
    for (auto [dims, type] : llvm::zip(tensors, types))
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        dims.resize(tensor.getRank());
  };
  complete(rule.operands, op->getOperandTypes());
  complete(rule.results, op->getResultTypes());
  keepToOneReduction(rule);
  return rule;
}

LoadOp heddle::findLoad(Value value) {
  Operation *source = value.getDefiningOp();
  while (source && source->hasTrait<OpTrait::Elementwise>() &&
         source->getNumOperands() == 1)
    source = source->getOperand(0).getDefiningOp();
  return dyn_cast_or_null<LoadOp>(source);
}

std::string heddle::getFactorKey(const ShardingRule &rule, unsigned factor) {
  const std::string &name = rule.factors[factor].name;
  return name.empty() ? std::to_string(factor) : name;
}

std::optional<SharedAxis> heddle::findSharedAxis(const ShardingRule &rule,
                                                 const FactorAxes &axes) {
  auto meet = [&](unsigned i, unsigned j) {
    return rule.meet && axes[i] == axes[j] &&
           rule.meet == std::pair(std::min(i, j), std::max(i, j));
  };
  for (unsigned i = 0; i < axes.size(); ++i)
    for (auto [k, axis] : llvm::enumerate(axes[i])) {
      for (unsigned j = 0; j < i; ++j)
        if (llvm::is_contained(axes[j], axis) && !meet(i, j))
          return SharedAxis{axis, j, i};
      if (llvm::is_contained(ArrayRef(axes[i]).take_front(k), axis))
        return SharedAxis{axis, i, i};
    }
  return std::nullopt;
}

LogicalResult heddle::verifyFactorAxes(Operation *op, const ShardingRule &rule,
                                       const FactorAxes &axes, MeshAttr mesh) {
  for (auto [i, list] : llvm::enumerate(axes)) {
    for (StringAttr axis : list)
      if (!mesh.getAxisSize(axis))
        return op->emitOpError()
               << "expected an axis of " << mesh << ", got " << axis;
    if (!list.empty() && rule.factors[i].kind == FactorKind::Replicate)
      return op->emitOpError()
             << "factor " << getFactorKey(rule, i) << " must not be split, got "
             << AxisListAttr::get(op->getContext(), list);
  }
  if (std::optional<SharedAxis> shared = findSharedAxis(rule, axes))
    return op->emitOpError() << "expected each mesh axis for one factor, got "
                             << shared->axis << " twice";
  return success();
}

std::optional<unsigned> heddle::findFactor(const ShardingRule &rule,
                                           StringRef key) {
  if (std::optional<unsigned> factor = rule.getFactor(key))
    return factor;
  unsigned index;
  if (!key.getAsInteger(10, index) && index < rule.factors.size() &&
      rule.factors[index].name.empty())
    return index;
  return std::nullopt;
}

FailureOr<FactorAxes>
heddle::readFactorAxes(Operation *op, const ShardingRule &rule, MeshAttr mesh) {
  FactorAxes axes(rule.factors.size());
  auto attr = op->getAttrOfType<FactorShardingAttr>(kFactorsAttrName);
  if (!attr)
    return axes;
  for (FactorAxesAttr entry : attr.getFactors()) {
    StringRef key = entry.getFactor().getValue();
    std::optional<unsigned> factor = findFactor(rule, key);
    if (!factor) {
      std::string known;
      for (unsigned i = 0; i < rule.factors.size(); ++i)
        known += (i ? ", " : "") + getFactorKey(rule, i);
      return op->emitOpError() << "expected a factor of the op (" << known
                               << "), got \"" << key << "\"";
    }
    axes[*factor] = Axes(entry.getAxes().getAxes());
  }
  if (failed(verifyFactorAxes(op, rule, axes, mesh)))
    return failure();
  return axes;
}

FactorShardingAttr heddle::makeFactorsAttr(MLIRContext *context,
                                           const ShardingRule &rule,
                                           ArrayRef<Axes> axes) {
  SmallVector<FactorAxesAttr> entries;
  for (auto [i, list] : llvm::enumerate(axes))
    if (!list.empty())
      entries.push_back(FactorAxesAttr::get(
          context, StringAttr::get(context, getFactorKey(rule, i)),
          AxisListAttr::get(context, list)));
  return entries.empty() ? FactorShardingAttr()
                         : FactorShardingAttr::get(context, entries);
}

void heddle::writeFactorAxes(Operation *op, const ShardingRule &rule,
                             ArrayRef<Axes> axes) {
  if (FactorShardingAttr attr = makeFactorsAttr(op->getContext(), rule, axes))
    op->setAttr(kFactorsAttrName, attr);
  else
    op->removeAttr(kFactorsAttrName);
}

bool heddle::isRepresentable(const ShardingRule &rule, const FactorAxes &axes,
                             MeshAttr mesh) {
  auto check = [&](const TensorFactors &tensor) {
    for (const DimensionFactors &dim : tensor) {
      if (dim.size() < 2)
        continue;
      bool whole = false; // an earlier factor has parts of several elements
      for (unsigned factor : dim) {
        int64_t parts = mesh.getSize(axes[factor]);
        int64_t size = rule.factors[factor].size;
        if (parts > 1 && (whole || size % parts != 0))
          return false;
        whole |= parts != size;
      }
    }
    return true;
  };
  return llvm::all_of(rule.operands, check) &&
         llvm::all_of(rule.results, check);
}

Axes heddle::getDimensionAxes(const DimensionFactors &dim,
                              const FactorAxes &axes) {
  Axes result;
  for (unsigned factor : dim)
    result.append(axes[factor]);
  return result;
}

SmallVector<Axes, 1> heddle::distributeAxes(const DimensionFactors &dim,
                                            const ShardingRule &rule,
                                            ArrayRef<StringAttr> axes,
                                            MeshAttr mesh) {
  SmallVector<Axes, 1> result(dim.size());
  if (dim.size() == 1) {
    result[0].assign(axes.begin(), axes.end());
    return result;
  }
  for (auto [factor, list] : llvm::zip(dim, result)) {
    int64_t rest = rule.factors[factor].size;
    while (!axes.empty() && rest % mesh.getAxisSize(axes.front()) == 0) {
      rest /= mesh.getAxisSize(axes.front());
      list.push_back(axes.front());
      axes = axes.drop_front();
    }
    if (rest != 1)
      break;
  }
  return result;
}

ShardingAttr heddle::makeSharding(MeshRef mesh, ArrayRef<Axes> dims,
                                  ArrayRef<StringAttr> partial,
                                  ReductionKind kind) {
  MLIRContext *context = mesh.symbol.getContext();
  SmallVector<AxisListAttr> lists;
  for (const Axes &dim : dims)
    lists.push_back(AxisListAttr::get(context, dim));
  // Partial axes are a set. The order of the mesh makes equal shardings equal
  // attributes.
  SmallVector<StringAttr> ordered;
  for (MeshAxisAttr axis : mesh.mesh.getAxes())
    if (llvm::is_contained(partial, axis.getName()))
      ordered.push_back(axis.getName());
  return ShardingAttr::get(context, mesh.symbol, lists,
                           ordered.empty() ? ReductionKind::Sum : kind,
                           ordered);
}

DimensionAxes heddle::getDimensions(ShardingAttr sharding) {
  DimensionAxes dims;
  for (AxisListAttr dim : sharding.getDims())
    dims.emplace_back(dim.getAxes());
  return dims;
}

static DimensionAxes getTensorAxes(const TensorFactors &tensor,
                                   const FactorAxes &axes) {
  DimensionAxes dims;
  for (const DimensionFactors &dim : tensor)
    dims.push_back(getDimensionAxes(dim, axes));
  return dims;
}

/// Returns the axes over which the tensor is partial by reductions of `kind`:
/// the axes of reduction factors that do not run over the tensor. Leaves out
/// axes that split a dimension of the tensor as well (by a factor that meets
/// the reduction factor), because the op's localization sums over them.
static Axes getPartialAxes(const ShardingRule &rule, const FactorAxes &axes,
                           const TensorFactors &tensor, FactorKind kind) {
  Axes partial;
  for (auto [i, factor] : llvm::enumerate(rule.factors))
    if (factor.kind == kind && !ShardingRule::runsOver(tensor, i))
      for (StringAttr axis : axes[i])
        if (llvm::none_of(tensor, [&](const DimensionFactors &dim) {
              return llvm::is_contained(getDimensionAxes(dim, axes), axis);
            }))
          partial.push_back(axis);
  return partial;
}

ShardingAttr heddle::getOperandSharding(const ShardingRule &rule,
                                        const FactorAxes &axes, unsigned index,
                                        MeshRef mesh) {
  const TensorFactors &tensor = rule.operands[index];
  Axes partial;
  // The operand is partial if it is an accumulator. Then a split sum factor
  // does not run over it, but over another operand of its linear group.
  for (auto [i, factor] : llvm::enumerate(rule.factors)) {
    if (factor.kind != FactorKind::Sum || axes[i].empty() ||
        ShardingRule::runsOver(tensor, i))
      continue;
    for (const LinearGroup &group : rule.linear)
      if (llvm::is_contained(group.operands, index) &&
          llvm::any_of(group.operands, [&](unsigned other) {
            return ShardingRule::runsOver(rule.operands[other], i);
          })) {
        partial.append(axes[i]);
        break;
      }
  }
  return makeSharding(mesh, getTensorAxes(tensor, axes), partial);
}

ShardingAttr heddle::getResultSharding(const ShardingRule &rule,
                                       const FactorAxes &axes, unsigned index,
                                       MeshRef mesh) {
  const TensorFactors &tensor = rule.results[index];
  Axes sum = getPartialAxes(rule, axes, tensor, FactorKind::Sum);
  Axes max = getPartialAxes(rule, axes, tensor, FactorKind::Max);
  // getRule leaves only one kind of reduction for a result.
  return max.empty() ? makeSharding(mesh, getTensorAxes(tensor, axes), sum)
                     : makeSharding(mesh, getTensorAxes(tensor, axes), max,
                                    ReductionKind::Max);
}
