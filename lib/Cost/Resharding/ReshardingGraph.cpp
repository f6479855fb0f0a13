//===- ReshardingGraph.cpp - Layouts, and single ops between them ---------===//

#include "ReshardingGraph.h"
#include "LayoutPermute.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace heddle;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

class ReshardingGraph::EdgeBuilder {
public:
  EdgeBuilder(ReshardingGraph &graph, TensorLayout from)
      : graph(graph), topology(graph.topology), geometry(graph.geometry),
        from(std::move(from)), bytes(geometry.getLocalBytes(this->from)) {}

  std::vector<Edge> build() {
    AxisMask used = getUsedAxes(from);
    for (const std::vector<unsigned> &axes : graph.places.lists) {
      AxisMask mask = 0;
      for (unsigned axis : axes)
        mask |= AxisMask(1) << axis;
      if (!(mask & used))
        addSlices(axes, mask);
      if ((mask & from.partial) == mask)
        addReductions(axes, mask);
    }
    for (unsigned dim = 0; dim < geometry.getRank(); ++dim)
      addGathers(dim);
    addPermutes();
    return std::move(edges);
  }

private:
  void addSlices(const std::vector<unsigned> &axes, AxisMask mask);
  void addReductions(const std::vector<unsigned> &axes, AxisMask mask);
  /// Adds the all-gathers of a dimension and the all-to-alls from it to
  /// another.
  void addGathers(unsigned dim);
  void addPermutes();
  void add(ReshardingStep::Kind kind, std::vector<unsigned> axes,
           const TensorLayout &after, CollectiveCost cost, unsigned dim = 0,
           unsigned concatDim = 0);
  /// Returns the layout with `dim` split by `axes` as well. Returns nothing if
  /// the axes may not split it or its parts do not nest.
  std::optional<TensorLayout> split(TensorLayout layout, unsigned dim,
                                    ArrayRef<unsigned> axes) const;

  ReshardingGraph &graph;
  const MeshTopology &topology;
  const LayoutGeometry &geometry;
  TensorLayout from;
  int64_t bytes;
  std::vector<Edge> edges;
};

void ReshardingGraph::EdgeBuilder::add(ReshardingStep::Kind kind,
                                       std::vector<unsigned> axes,
                                       const TensorLayout &after,
                                       CollectiveCost cost, unsigned dim,
                                       unsigned concatDim) {
  edges.push_back({kind, std::move(axes), dim, concatDim, graph.getNode(after),
                   cost, std::llround(cost.seconds * 1e12)});
}

std::optional<TensorLayout>
ReshardingGraph::EdgeBuilder::split(TensorLayout layout, unsigned dim,
                                    ArrayRef<unsigned> axes) const {
  AxisMask splitting = graph.places.splitting[dim];
  if (llvm::any_of(axes,
                   [&](unsigned axis) { return !(splitting >> axis & 1); }))
    return std::nullopt;
  if (!geometry.doPartsNest(dim, layout.dims[dim], axes))
    return std::nullopt;
  llvm::append_range(layout.dims[dim], axes);
  return layout;
}

void ReshardingGraph::EdgeBuilder::addSlices(const std::vector<unsigned> &axes,
                                             AxisMask mask) {
  for (unsigned dim = 0; dim < geometry.getRank(); ++dim)
    if (std::optional<TensorLayout> after = split(from, dim, axes))
      add(ReshardingStep::Slice, axes, *after,
          topology.local(geometry.getLocalBytes(*after)), dim);
  // A maximum needs no such step, because copies are parts of their maximum.
  if (from.isMax || !llvm::is_sorted(axes) || (mask & ~graph.places.partial))
    return;
  TensorLayout after = from;
  after.partial |= mask;
  add(ReshardingStep::KeepFirst, axes, after, topology.local(bytes));
}

void ReshardingGraph::EdgeBuilder::addReductions(
    const std::vector<unsigned> &axes, AxisMask mask) {
  TensorLayout reduced = from;
  reduced.partial &= ~mask;
  reduced.isMax &= reduced.partial != 0;
  for (unsigned dim = 0; dim < geometry.getRank(); ++dim)
    if (std::optional<TensorLayout> after = split(reduced, dim, axes))
      add(ReshardingStep::ReduceScatter, axes, *after,
          topology.reduceScatter(mask, geometry.getLocalBytes(*after)), dim);
  if (llvm::is_sorted(axes))
    add(ReshardingStep::AllReduce, axes, reduced,
        topology.allReduce(mask, bytes));
}

void ReshardingGraph::EdgeBuilder::addGathers(unsigned dim) {
  ArrayRef<unsigned> list = from.dims[dim];
  AxisMask mask = 0;
  // Gathers any number of the dimension's minor axes, except those that stay.
  for (size_t kept = list.size();
       kept-- > graph.places.base.dims[dim].size();) {
    ArrayRef<unsigned> outer = list.take_front(kept),
                       axes = list.drop_front(kept);
    mask |= AxisMask(1) << list[kept];
    if (!geometry.doPartsNest(dim, outer, axes))
      continue;
    TensorLayout joined = from;
    joined.dims[dim] = outer.vec();
    add(ReshardingStep::AllGather, axes.vec(), joined,
        topology.allGather(mask, bytes), dim);
    for (unsigned other = 0; other < geometry.getRank(); ++other) {
      if (other == dim)
        continue;
      std::optional<TensorLayout> after = split(joined, other, axes);
      if (!after)
        continue;
      // The block that one device sends to another is a part in both
      // dimensions.
      TensorLayout block = *after;
      block.dims[dim] = list.vec();
      add(ReshardingStep::AllToAll, axes.vec(), *after,
          topology.allToAll(mask, geometry.getLocalBytes(block)), other, dim);
    }
  }
}

void ReshardingGraph::EdgeBuilder::addPermutes() {
  auto equal = graph.permutable.find(geometry.getLocalShape(from));
  if (equal == graph.permutable.end())
    return;
  for (TensorLayout to : equal->second) {
    to.isMax = from.isMax && to.partial;
    if (to == from)
      continue;
    if (from.partial ? !to.partial : from.isMax)
      continue;
    if (std::optional<LayoutPermute> permute =
            findPermute(topology, geometry, from, to))
      add(ReshardingStep::Permute, {}, to, permute->cost);
  }
}

//===----------------------------------------------------------------------===//
// Graph
//===----------------------------------------------------------------------===//

ReshardingGraph::ReshardingGraph(const MeshTopology &topology,
                                 LayoutGeometry geometry, AxisPlaces places)
    : topology(topology), geometry(std::move(geometry)),
      places(std::move(places)) {
  TensorLayout layout = this->places.base;
  if (this->places.mayPermute)
    listPermutable(0, layout);
}

void ReshardingGraph::listPermutable(unsigned axis, TensorLayout &layout) {
  if (axis == topology.getAxisSizes().size()) {
    permutable[geometry.getLocalShape(layout)].push_back(layout);
    return;
  }
  listPermutable(axis + 1, layout);
  AxisMask bit = AxisMask(1) << axis;
  if (!(places.movable & bit))
    return;
  layout.partial |= bit;
  listPermutable(axis + 1, layout);
  layout.partial &= ~bit;
  for (size_t dim = 0; dim < geometry.getRank(); ++dim) {
    std::vector<unsigned> &list = layout.dims[dim];
    for (size_t place = places.base.dims[dim].size(); place <= list.size();
         ++place) {
      list.insert(list.begin() + int64_t(place), axis);
      listPermutable(axis + 1, layout);
      list.erase(list.begin() + int64_t(place));
    }
  }
}

unsigned ReshardingGraph::getNode(const TensorLayout &layout) {
  auto [known, isNew] = numbers.try_emplace(
      {layout.dims, layout.partial, layout.isMax}, unsigned(nodes.size()));
  if (isNew)
    nodes.push_back({layout});
  return known->second;
}

const std::vector<ReshardingGraph::Edge> &
ReshardingGraph::getEdges(unsigned node) {
  if (!nodes[node].edges) {
    std::vector<Edge> edges = EdgeBuilder(*this, nodes[node].layout).build();
    nodes[node].edges = std::move(edges);
  }
  return *nodes[node].edges;
}

ReshardingStep ReshardingGraph::makeStep(unsigned node,
                                         const Edge &edge) const {
  const TensorLayout &from = nodes[node].layout,
                     &to = nodes[edge.target].layout;
  ReshardingStep step{edge.kind, edge.axes, edge.dim, edge.concatDim};
  if (edge.kind == ReshardingStep::Permute) {
    GroupPermute group = getGroupPermute(
        topology, findPermute(topology, geometry, from, to)->sources);
    step.axes = std::move(group.axes);
    step.sources = std::move(group.sources);
  }
  step.after = to;
  step.localShape = geometry.getLocalShape(to);
  step.isPadded = geometry.getPaddedDims(to);
  step.cost = edge.cost;
  return step;
}
