//===- Strategies.cpp - The ways to split a group of ops ------------------===//

#include "Strategies.h"
#include "heddle/Support/Bytes.h"

using namespace mlir;
using namespace heddle;

/// With more axes than this, the axes of one dimension keep the mesh's order.
static constexpr size_t kMostOrderedAxes = 2;

Axes heddle::getPlannedAxes(MeshRef mesh) {
  Axes axes;
  for (MeshAxisAttr axis : mesh.mesh.getAxes())
    if (axis.getSize() > 1 && axis.getName() != kPipelineAxis)
      axes.push_back(axis.getName());
  return axes;
}

FactorAxes heddle::getFactorAxes(const OpClass &made,
                                 const Strategy &strategy) {
  FactorAxes axes;
  for (unsigned key : made.keys)
    axes.push_back(strategy.axes[key]);
  return axes;
}

static ShardingAttr addPartial(ShardingAttr sharding, const Axes &passed,
                               MeshRef mesh) {
  if (passed.empty())
    return sharding;
  SmallVector<StringAttr> partial(sharding.getPartialAxes());
  partial.append(passed.begin(), passed.end());
  return makeSharding(mesh, getDimensions(sharding), partial);
}

ShardingAttr heddle::getNeed(const OpClass &made, const Strategy &strategy,
                             unsigned operand, MeshRef mesh) {
  ShardingAttr own = getOperandSharding(
      made.rule, getFactorAxes(made, strategy), operand, mesh);
  bool passes =
      !strategy.passed.empty() &&
      llvm::is_contained(made.rule.linear[strategy.linear].operands, operand);
  return passes ? addPartial(own, strategy.passed, mesh) : own;
}

ShardingAttr heddle::getMade(const OpClass &made, const Strategy &strategy,
                             unsigned result, MeshRef mesh) {
  return addPartial(
      getResultSharding(made.rule, getFactorAxes(made, strategy), result, mesh),
      strategy.passed, mesh);
}

//===----------------------------------------------------------------------===//
// Strategies of groups
//===----------------------------------------------------------------------===//

namespace {
class Enumerator {
public:
  Enumerator(const Program &program, unsigned index, MeshRef mesh,
             const Plan &base, bool allowsEmptyParts)
      : program(program), group(program.groups[index]), mesh(mesh),
        planned(getPlannedAxes(mesh)), allowsEmptyParts(allowsEmptyParts) {
    fixed.resize(group.keys.size());
    for (auto [i, key] : llvm::enumerate(group.keys))
      if (!key.empty())
        for (const std::string &name : group.names)
          if (const FactorEntry *entry =
                  findPlanEntry(base.operators, name, key)) {
            Axes axes;
            for (const std::string &axis : entry->find(key)->axes)
              if (base.getAxisSize(axis) > 1)
                axes.push_back(StringAttr::get(mesh.symbol.getContext(), axis));
            fixed[i] = axes;
          }
    // Sums of scalars are one group, and all pass partial sums on.
    if (group.classes.size() == 1 || group.keys.empty())
      findLinearGroups(program.ops[group.classes.front()]);
  }

  std::vector<Strategy> run() {
    Strategy start;
    start.axes.resize(group.keys.size());
    add(start, 0);
    return std::move(found);
  }

private:
  /// Finds the linear groups along which a cheap op may pass partial sums: the
  /// results must not be larger than the operands.
  void findLinearGroups(const OpClass &made) {
    if (!made.rule.defersPartialSums)
      return;
    int64_t results = 0;
    for (Type type : made.op()->getResultTypes())
      results += getBytes(type);
    for (auto [i, linear] : llvm::enumerate(made.rule.linear)) {
      int64_t operands = 0;
      for (unsigned operand : linear.operands)
        operands += getBytes(made.op()->getOperand(operand).getType());
      if (linear.results.empty() && results <= operands)
        linearGroups.push_back(i);
    }
  }

  bool isAllowed(const Strategy &strategy) const {
    for (auto [axes, wanted] : llvm::zip(strategy.axes, fixed))
      if (wanted && axes != *wanted)
        return false;
    for (unsigned index : group.classes) {
      const OpClass &made = program.ops[index];
      FactorAxes axes = getFactorAxes(made, strategy);
      for (auto [factor, list] : llvm::zip(made.rule.factors, axes))
        if (!list.empty() &&
            (factor.kind == FactorKind::Replicate ||
             (!allowsEmptyParts && mesh.getSize(list) > factor.size)))
          return false;
      if (findSharedAxis(made.rule, axes) ||
          !isRepresentable(made.rule, axes, mesh.mesh))
        return false;
    }
    return true;
  }

  void add(Strategy &strategy, unsigned axis) {
    if (axis == planned.size()) {
      if (strategy.passed.empty()) {
        if (isAllowed(strategy))
          found.push_back(strategy);
        return;
      }
      if (!isAllowed(strategy))
        return;
      for (unsigned linear : linearGroups) {
        strategy.linear = linear;
        found.push_back(strategy);
      }
      strategy.linear = 0;
      return;
    }
    add(strategy, axis + 1);
    StringAttr name = planned[axis];
    for (unsigned key = 0; key < strategy.axes.size(); ++key)
      insert(strategy, axis, strategy.axes[key]);
    for (unsigned index : group.classes) {
      const OpClass &made = program.ops[index];
      if (!made.rule.meet)
        continue;
      Axes &first = strategy.axes[made.keys[made.rule.meet->first]];
      Axes &second = strategy.axes[made.keys[made.rule.meet->second]];
      first.push_back(name);
      second.push_back(name);
      add(strategy, axis + 1);
      first.pop_back();
      second.pop_back();
      break; // ops of one group meet in the same keys
    }
    if (!linearGroups.empty()) {
      strategy.passed.push_back(name);
      add(strategy, axis + 1);
      strategy.passed.pop_back();
    }
  }

  /// Inserts the axis into a key's list. In an update, whose operands have the
  /// layouts of variables, inserts it at every place, otherwise at the end.
  void insert(Strategy &strategy, unsigned axis, Axes &list) {
    bool orders = group.isUpdate && planned.size() <= kMostOrderedAxes;
    for (size_t at = orders ? 0 : list.size(); at <= list.size(); ++at) {
      list.insert(list.begin() + at, planned[axis]);
      add(strategy, axis + 1);
      list.erase(list.begin() + at);
    }
  }

  const Program &program;
  const Group &group;
  MeshRef mesh;
  Axes planned;
  bool allowsEmptyParts;
  SmallVector<std::optional<Axes>> fixed;
  SmallVector<unsigned> linearGroups;
  std::vector<Strategy> found;
};
} // namespace

std::vector<Strategy> heddle::enumerateStrategies(const Program &program,
                                                  unsigned group, MeshRef mesh,
                                                  const Plan &base,
                                                  bool allowsEmptyParts) {
  return Enumerator(program, group, mesh, base, allowsEmptyParts).run();
}

//===----------------------------------------------------------------------===//
// Layouts of values
//===----------------------------------------------------------------------===//

std::vector<ShardingAttr> heddle::enumerateLayouts(RankedTensorType type,
                                                   MeshRef mesh, bool orders,
                                                   bool partial,
                                                   bool allowsEmptyParts) {
  Axes planned = getPlannedAxes(mesh), sums;
  DimensionAxes dims(type.getRank());
  orders &= planned.size() <= kMostOrderedAxes;
  std::vector<ShardingAttr> found;
  std::function<void(unsigned)> add = [&](unsigned axis) {
    if (axis == planned.size()) {
      for (auto [size, list] : llvm::zip(type.getShape(), dims))
        if (!allowsEmptyParts &&
            mesh.getSize(list) > std::max<int64_t>(size, 1))
          return;
      found.push_back(makeSharding(mesh, dims, sums));
      return;
    }
    add(axis + 1);
    for (Axes &list : dims)
      for (size_t at = orders ? 0 : list.size(); at <= list.size(); ++at) {
        list.insert(list.begin() + at, planned[axis]);
        add(axis + 1);
        list.erase(list.begin() + at);
      }
    if (partial) {
      sums.push_back(planned[axis]);
      add(axis + 1);
      sums.pop_back();
    }
  };
  add(0);
  return found;
}
