//===- ReshardingGraph.h - Layouts, and single ops between them -*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDING_RESHARDINGGRAPH_H
#define HEDDLE_LIB_COST_RESHARDING_RESHARDINGGRAPH_H

#include "LayoutGeometry.h"

namespace heddle {

/// The places that axes of a mesh may have on the way from one layout to
/// another.
struct AxisPlaces {
  /// The layout of the axes that stay. In each dimension, movable axes come
  /// after the axes that stay.
  TensorLayout base;
  AxisMask movable = 0;
  /// For each dimension, the movable axes that may split it.
  std::vector<AxisMask> splitting;
  /// The movable axes over which a value may be partial.
  AxisMask partial = 0;
  /// The lists of axes that one op may slice or reduce over, major to minor.
  std::vector<std::vector<unsigned>> lists;
  bool mayPermute = false;
};

/// The graph whose nodes are layouts of one tensor, and whose edges are single
/// ops that lead from one layout to another. Nodes and edges are made on
/// demand.
class ReshardingGraph {
public:
  struct Edge {
    ReshardingStep::Kind kind;
    std::vector<unsigned> axes;
    unsigned dim, concatDim, target;
    CollectiveCost cost;
    /// The cost in whole picoseconds, so that sums do not depend on their
    /// order.
    int64_t picoseconds;
  };

  ReshardingGraph(const MeshTopology &topology, LayoutGeometry geometry,
                  AxisPlaces places);

  unsigned getNode(const TensorLayout &layout);
  const std::vector<Edge> &getEdges(unsigned node);
  ReshardingStep makeStep(unsigned node, const Edge &edge) const;

private:
  struct Node {
    TensorLayout layout;
    std::optional<std::vector<Edge>> edges = {};
  };
  /// Makes the edges from one node.
  class EdgeBuilder;
  using NodeKey =
      std::tuple<std::vector<std::vector<unsigned>>, AxisMask, bool>;

  void listPermutable(unsigned axis, TensorLayout &layout);

  const MeshTopology &topology;
  LayoutGeometry geometry;
  AxisPlaces places;
  /// The layouts of each local shape. A permute leads from one to another of
  /// the same shape. Empty if there are no permutes.
  std::map<std::vector<int64_t>, std::vector<TensorLayout>> permutable;
  std::vector<Node> nodes;
  std::map<NodeKey, unsigned> numbers;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDING_RESHARDINGGRAPH_H
