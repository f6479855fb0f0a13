//===- Propagation.cpp - Propagates axes ----------------------------------===//

#include "heddle/Sharding/Propagation.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace mlir;
using namespace heddle;

/// The weight of a definition, which outweighs all uses of a value.
static constexpr double kDefinitionWeight = 1e6;

unsigned Propagation::addCell(RankedTensorType type) {
  cells.emplace_back();
  cells.back().type = type;
  cells.back().dims.resize(type.getRank());
  return cells.size() - 1;
}

std::optional<unsigned> Propagation::getCell(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return std::nullopt;
  auto [known, isNew] = cellOf.try_emplace(value, cells.size());
  if (isNew)
    addCell(type);
  return known->second;
}

unsigned Propagation::addSharedCell(ArrayRef<Value> values) {
  unsigned cell = addCell(cast<RankedTensorType>(values.front().getType()));
  for (Value value : values)
    cellOf[value] = cell;
  return cell;
}

void Propagation::appendAxes(unsigned cell, unsigned dim,
                             ArrayRef<StringAttr> axes, Origin origin) {
  if (cells[cell].pinnedAt)
    return;
  for (StringAttr axis : axes)
    if (llvm::none_of(cells[cell].dims, [&](const Axes &list) {
          return llvm::is_contained(list, axis);
        })) {
      cells[cell].dims[dim].push_back(axis);
      cells[cell].origins[axis] = origin;
    }
}

void Propagation::pinCell(unsigned cell, DimensionAxes dims, int64_t level,
                          Origin origin) {
  cells[cell].dims = std::move(dims);
  cells[cell].pinnedAt = level;
  for (const Axes &axes : cells[cell].dims)
    for (StringAttr axis : axes)
      cells[cell].origins[axis] = origin;
}

unsigned Propagation::addNode(Operation *op, ShardingRule rule, FactorAxes axes,
                              ArrayRef<bool> pinned, int64_t level) {
  unsigned index = nodes.size();
  Node node{
      op,   std::move(rule), std::move(axes), SmallVector<bool>(pinned), {}, {},
      level};
  for (const Axes &list : node.axes)
    for (StringAttr axis : list)
      node.origins[axis] = {OriginKind::Factors, {}};
  for (auto [i, value] : llvm::enumerate(op->getOperands())) {
    node.operands.push_back(getCell(value));
    if (node.operands.back())
      cells[*node.operands.back()].uses.push_back({index, false, unsigned(i)});
  }
  for (auto [i, value] : llvm::enumerate(op->getResults())) {
    node.results.push_back(getCell(value));
    if (node.results.back())
      cells[*node.results.back()].uses.push_back({index, true, unsigned(i)});
  }
  nodes.push_back(std::move(node));
  nodeOf[op] = index;
  return index;
}

void Propagation::releaseAxes(unsigned node, ArrayRef<StringAttr> axes) {
  for (Axes &list : nodes[node].axes)
    llvm::erase_if(
        list, [&](StringAttr axis) { return llvm::is_contained(axes, axis); });
}

void Propagation::link(unsigned a, unsigned b) {
  cells[a].links.push_back(b);
  cells[b].links.push_back(a);
}

void Propagation::clearLinks() {
  for (Cell &cell : cells)
    cell.links.clear();
}

void Propagation::addFlow(unsigned from, unsigned to, bool atEnd) {
  cells[to].flows.push_back({from, atEnd ? kDefinitionWeight : 1.0});
  cells[from].flows.push_back({to, 1.0});
}

const TensorFactors &Propagation::tensorOf(const Use &use) const {
  const ShardingRule &rule = nodes[use.node].rule;
  return use.isResult ? rule.results[use.index] : rule.operands[use.index];
}

Propagation::Proposals Propagation::hearCells(const Node &node) const {
  Proposals proposals(node.axes.size());
  auto hear = [&](ArrayRef<std::optional<unsigned>> tensors,
                  ArrayRef<TensorFactors> factors) {
    for (auto [cell, dims] : llvm::zip(tensors, factors)) {
      if (!cell || !speaks(cells[*cell]))
        continue;
      double weight = getBytes(cells[*cell].type);
      for (auto [dim, wanted] : llvm::zip(dims, cells[*cell].dims)) {
        auto lists = distributeAxes(dim, node.rule, wanted, mesh.mesh);
        for (auto [factor, axes] : llvm::zip(dim, lists))
          if (!axes.empty())
            proposals[factor].push_back({axes, weight, {false, *cell}, weight});
      }
    }
  };
  hear(node.operands, node.rule.operands);
  hear(node.results, node.rule.results);
  return proposals;
}

Propagation::Proposals Propagation::hearNodes(const Cell &cell) const {
  Proposals proposals(cell.dims.size());
  for (const Use &use : cell.uses) {
    FactorAxes spoken = getSpoken(nodes[use.node]);
    double weight = use.isResult ? kDefinitionWeight : 1.0;
    for (auto [i, dim] : llvm::enumerate(tensorOf(use))) {
      Axes axes = getDimensionAxes(dim, spoken);
      if (!axes.empty())
        proposals[i].push_back({axes, weight, {true, use.node}, weight});
    }
  }
  auto hear = [&](unsigned other, double weight) {
    if (!speaks(cells[other]))
      return;
    for (auto [i, axes] : llvm::enumerate(cells[other].dims))
      if (!axes.empty())
        proposals[i].push_back({axes, weight, {false, other}, weight});
  };
  for (unsigned other : cell.links)
    hear(other, 1.0);
  for (auto [other, weight] : cell.flows)
    hear(other, weight);
  return proposals;
}

bool Propagation::isBefore(ArrayRef<StringAttr> a,
                           ArrayRef<StringAttr> b) const {
  auto position = [&](StringAttr axis) {
    ArrayRef<MeshAxisAttr> axes = mesh.mesh.getAxes();
    return llvm::find_if(
               axes,
               [&](MeshAxisAttr other) { return other.getName() == axis; }) -
           axes.begin();
  };
  // The longer list comes first: it contains the shorter one's decision.
  if (a.size() != b.size())
    return a.size() > b.size();
  for (auto [x, y] : llvm::zip(a, b))
    if (x != y)
      return position(x) < position(y);
  return false;
}

SmallVector<Propagation::Gain>
Propagation::decide(ArrayRef<Axes> current, const Proposals &proposals) const {
  llvm::SmallDenseSet<StringAttr> used;
  for (const Axes &list : current)
    used.insert(list.begin(), list.end());
  // The best continuation of each list, by axes that no list has yet.
  SmallVector<Proposal> best(current.size(), {{}, 0, {}, 0});
  for (auto [list, heard, mine] : llvm::zip(current, proposals, best)) {
    SmallVector<Proposal, 4> sums;
    for (const Proposal &proposal : heard) {
      ArrayRef<StringAttr> axes = proposal.axes;
      if (axes.size() <= list.size() ||
          axes.take_front(list.size()) != ArrayRef<StringAttr>(list))
        continue; // it adds nothing, or contradicts
      Axes rest(axes.drop_front(list.size()).take_while([&](StringAttr axis) {
        return !used.contains(axis);
      }));
      if (rest.empty())
        continue;
      auto known =
          llvm::find_if(sums, [&](auto &sum) { return sum.axes == rest; });
      if (known == sums.end()) {
        sums.push_back(proposal);
        sums.back().axes = rest;
        continue;
      }
      known->weight += proposal.weight;
      if (proposal.weight > known->loudest) {
        known->from = proposal.from;
        known->loudest = proposal.weight;
      }
    }
    for (const Proposal &sum : sums)
      if (mine.axes.empty() || sum.weight > mine.weight ||
          (sum.weight == mine.weight && isBefore(sum.axes, mine.axes)))
        mine = sum;
  }
  // An axis goes to only one list. The list of the heaviest proposal chooses
  // first.
  SmallVector<unsigned> order(current.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return best[a].weight > best[b].weight ||
           (best[a].weight == best[b].weight && a < b);
  });
  SmallVector<Gain> gains(current.size());
  for (unsigned i : order) {
    gains[i].from = best[i].from;
    for (StringAttr axis : best[i].axes) {
      if (!used.insert(axis).second)
        break;
      gains[i].axes.push_back(axis);
    }
  }
  return gains;
}

FactorAxes Propagation::getSpoken(const Node &node) const {
  FactorAxes spoken = node.axes;
  if (node.level > level)
    for (auto [axes, pinned] : llvm::zip(spoken, node.pinned))
      if (pinned)
        axes.clear();
  return spoken;
}

SmallVector<Propagation::Gain> Propagation::listen(const Node &node) const {
  if (node.frozen)
    return {};
  Proposals proposals = hearCells(node);
  for (unsigned i = 0; i < node.axes.size(); ++i)
    if (node.pinned[i] || node.rule.factors[i].kind == FactorKind::Replicate ||
        node.rule.factors[i].onlyByPlan || node.rule.factors[i].size == 1)
      proposals[i].clear();
  FactorAxes next = node.axes;
  SmallVector<Gain> gains = decide(node.axes, proposals);
  for (auto [list, gain] : llvm::zip(next, gains))
    for (size_t k = 0; k < gain.axes.size(); ++k) {
      list.push_back(gain.axes[k]);
      if (!isRepresentable(node.rule, next, mesh.mesh)) {
        list.pop_back();
        gain.axes.truncate(k);
      }
    }
  return gains;
}

SmallVector<Propagation::Gain> Propagation::listen(const Cell &cell) const {
  if (cell.pinnedAt)
    return {};
  return decide(cell.dims, hearNodes(cell));
}

void Propagation::run(int64_t upTo) {
  level = upTo;
  auto take = [](auto &lists, auto &origins, ArrayRef<Gain> gains) {
    for (auto [list, gain] : llvm::zip(lists, gains))
      for (StringAttr axis : gain.axes) {
        list.push_back(axis);
        origins[axis] = {OriginKind::Heard, gain.from};
      }
  };
  auto isSomething = [](ArrayRef<Gain> gains) {
    return llvm::any_of(gains,
                        [](const Gain &gain) { return !gain.axes.empty(); });
  };
  // In a round, all elements hear the state before the round, so their order
  // does not matter. After the first round, only elements that changed or have
  // a changed neighbour listen again.
  SmallVector<unsigned> dirtyNodes(nodes.size()), dirtyCells(cells.size());
  std::iota(dirtyNodes.begin(), dirtyNodes.end(), 0);
  std::iota(dirtyCells.begin(), dirtyCells.end(), 0);
  while (!dirtyNodes.empty() || !dirtyCells.empty()) {
    SmallVector<std::pair<unsigned, SmallVector<Gain>>> ofNodes, ofCells;
    for (unsigned i : dirtyNodes)
      if (auto gains = listen(nodes[i]); isSomething(gains))
        ofNodes.emplace_back(i, std::move(gains));
    for (unsigned i : dirtyCells)
      if (auto gains = listen(cells[i]); isSomething(gains))
        ofCells.emplace_back(i, std::move(gains));
    dirtyNodes.clear();
    dirtyCells.clear();
    for (auto &[i, gains] : ofNodes) {
      take(nodes[i].axes, nodes[i].origins, gains);
      dirtyNodes.push_back(i);
      for (auto tensors : {&nodes[i].operands, &nodes[i].results})
        for (std::optional<unsigned> cell : *tensors)
          if (cell)
            dirtyCells.push_back(*cell);
    }
    for (auto &[i, gains] : ofCells) {
      take(cells[i].dims, cells[i].origins, gains);
      dirtyCells.push_back(i);
      for (const Use &use : cells[i].uses)
        dirtyNodes.push_back(use.node);
      llvm::append_range(dirtyCells, cells[i].links);
      for (auto [other, weight] : cells[i].flows)
        dirtyCells.push_back(other);
    }
    for (auto list : {&dirtyNodes, &dirtyCells}) {
      llvm::sort(*list);
      list->erase(llvm::unique(*list), list->end());
    }
  }
}

Propagation::Origin Propagation::getOrigin(Element element,
                                           StringAttr axis) const {
  return element.isNode ? nodes[element.index].origins.lookup(axis)
                        : cells[element.index].origins.lookup(axis);
}
