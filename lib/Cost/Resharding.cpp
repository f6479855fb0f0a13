//===- Resharding.cpp - The cheapest way between two layouts --------------===//

#include "heddle/Cost/Resharding.h"
#include "ReshardingMoves.h"
#include <cmath>
#include <queue>

using namespace heddle;
using llvm::ArrayRef;

llvm::StringRef heddle::stringifyReshardingKind(ReshardingStep::Kind kind) {
  switch (kind) {
  case ReshardingStep::Slice:
    return "slice";
  case ReshardingStep::ReduceScatter:
    return "reduce_scatter";
  case ReshardingStep::AllReduce:
    return "all_reduce";
  case ReshardingStep::AllToAll:
    return "all_to_all";
  case ReshardingStep::AllGather:
    return "all_gather";
  case ReshardingStep::Permute:
    return "permute";
  case ReshardingStep::KeepFirst:
    return "keep_first";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Graph: nodes made and expanded when they are met
//===----------------------------------------------------------------------===//

class ReshardingPlanner::Graph {
public:
  Graph(ReshardingMoves moves, bool leavesLayouts, double launch)
      : moves(std::move(moves)), leavesLayouts(leavesLayouts), launch(launch) {}

  Resharding find(const TensorLayout &from, const TensorLayout &to);

private:
  struct Edge {
    unsigned target;
    Move move;
    /// Of a permute, which is expensive to weigh: not known before it matters.
    bool isWeighed = true;
  };
  struct Node {
    HeldTensor held;
    bool isLayout;
    std::optional<std::vector<Edge>> edges;
  };

  unsigned intern(const HeldTensor &held);
  std::vector<Edge> &edgesOf(unsigned node);
  ReshardingStep makeStep(const HeldTensor &before, Move move);

  ReshardingMoves moves;
  bool leavesLayouts;
  double launch;
  std::vector<Node> nodes;
  std::map<std::vector<unsigned>, unsigned> numbers;
};

/// Whole picoseconds, so that sums do not depend on their order.
static int64_t toPicoseconds(CollectiveCost cost) {
  return std::llround(cost.seconds * 1e12);
}

unsigned ReshardingPlanner::Graph::intern(const HeldTensor &held) {
  std::vector<unsigned> key = held.rows;
  key.push_back(held.partial);
  key.push_back(held.isMax);
  auto [known, isNew] = numbers.try_emplace(key, unsigned(nodes.size()));
  if (isNew)
    nodes.push_back({held, moves.getLayout(held).has_value(), std::nullopt});
  return known->second;
}

std::vector<ReshardingPlanner::Graph::Edge> &
ReshardingPlanner::Graph::edgesOf(unsigned number) {
  if (nodes[number].edges)
    return *nodes[number].edges;
  std::vector<Edge> edges;
  HeldTensor held = nodes[number].held;
  bool isLayout = nodes[number].isLayout;
  for (Move &move : moves.from(held)) {
    unsigned target = intern(move.after);
    if (nodes[target].isLayout || (isLayout && leavesLayouts))
      edges.push_back({target, std::move(move), true});
  }
  for (HeldTensor &other : moves.getPermutations(held)) {
    Move move{ReshardingStep::Permute, {}};
    move.cost.seconds = launch; // it takes that at least
    edges.push_back({intern(other), std::move(move), false});
  }
  nodes[number].edges = std::move(edges);
  return *nodes[number].edges;
}

ReshardingStep ReshardingPlanner::Graph::makeStep(const HeldTensor &before,
                                                  Move move) {
  ReshardingStep step{move.kind, move.axes, move.dim, move.concatDim};
  if (move.kind == ReshardingStep::Permute)
    step.axes = moves.permute(before, move.after, &step.sources).axes;
  step.localShape = moves.getLocalShape(move.after);
  for (size_t dim = 0; dim < step.localShape.size(); ++dim)
    step.isPadded.push_back(moves.isPadded(move.after, dim));
  step.isMax = move.after.isMax;
  step.after = moves.getLayout(move.after);
  step.cost = move.cost;
  return step;
}

/// Dijkstra's algorithm.
Resharding ReshardingPlanner::Graph::find(const TensorLayout &from,
                                          const TensorLayout &to) {
  struct Reached {
    int64_t picoseconds = INT64_MAX;
    unsigned steps = 0, number = 0;
    unsigned previous = 0, edge = 0;
    bool done = false;
  };
  // Cost, steps, and order of discovery, which does not depend on what other
  // searches have interned before.
  using Entry = std::tuple<int64_t, unsigned, unsigned, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
  unsigned start = intern(moves.hold(from)), goal = intern(moves.hold(to));
  unsigned discovered = 1;
  std::vector<Reached> reached(nodes.size());
  reached[start].picoseconds = 0;
  queue.push({0, 0, 0, start});
  while (!queue.empty()) {
    unsigned node = std::get<3>(queue.top());
    queue.pop();
    if (node == goal)
      break;
    if (reached[node].done)
      continue;
    reached[node].done = true;
    std::vector<Edge> &edges = edgesOf(node);
    reached.resize(nodes.size());
    for (auto [i, edge] : llvm::enumerate(edges)) {
      Reached &target = reached[edge.target];
      auto sum = [&] {
        return std::pair(reached[node].picoseconds +
                             toPicoseconds(edge.move.cost),
                         reached[node].steps + 1);
      };
      auto isBetter = [&](std::pair<int64_t, unsigned> now) {
        return !target.done &&
               now < std::pair(target.picoseconds, target.steps) &&
               now.first <= reached[goal].picoseconds;
      };
      if (!isBetter(sum()))
        continue;
      if (!edge.isWeighed) {
        edge.move = moves.permute(nodes[node].held, nodes[edge.target].held);
        edge.isWeighed = true;
      }
      auto now = sum();
      if (!isBetter(now))
        continue;
      if (target.picoseconds == INT64_MAX)
        target.number = discovered++;
      target.picoseconds = now.first;
      target.steps = now.second;
      target.previous = node;
      target.edge = unsigned(i);
      queue.push({now.first, now.second, target.number, edge.target});
    }
  }
  Resharding result;
  for (unsigned node = goal; node != start; node = reached[node].previous) {
    unsigned previous = reached[node].previous;
    result.steps.push_back(
        makeStep(nodes[previous].held,
                 (*nodes[previous].edges)[reached[node].edge].move));
    result.cost += result.steps.back().cost;
  }
  std::reverse(result.steps.begin(), result.steps.end());
  return result;
}

//===----------------------------------------------------------------------===//
// Planner
//===----------------------------------------------------------------------===//

struct ReshardingPlanner::Key {
  std::vector<int64_t> shape;
  int64_t elementBytes;
  AxisMask movable;
  /// Where the other axes are.
  TensorLayout base;
  bool isMax;

  auto tie() const {
    return std::tie(shape, elementBytes, movable, base.dims, base.partial,
                    isMax);
  }
  bool operator<(const Key &other) const { return tie() < other.tie(); }
};

ReshardingPlanner::ReshardingPlanner(MeshTopology topology)
    : topology(std::make_unique<MeshTopology>(std::move(topology))) {}
ReshardingPlanner::~ReshardingPlanner() = default;
ReshardingPlanner::ReshardingPlanner(ReshardingPlanner &&) noexcept = default;

/// Where an axis is: its dimension and what stands before it, the partial, or
/// nowhere.
static std::vector<int64_t> getPlace(const TensorLayout &layout,
                                     unsigned axis) {
  for (auto [i, dim] : llvm::enumerate(layout.dims)) {
    std::vector<int64_t> place = {int64_t(i)};
    for (unsigned other : dim) {
      if (other == axis)
        return place;
      place.push_back(other);
    }
  }
  return {layout.partial >> axis & 1 ? -1 : -2};
}

Resharding ReshardingPlanner::find(ArrayRef<int64_t> shape,
                                   int64_t elementBytes,
                                   const TensorLayout &givenFrom,
                                   const TensorLayout &givenTo) {
  ArrayRef<int64_t> sizes = topology->getAxisSizes();
  auto clean = [&](TensorLayout layout) {
    for (std::vector<unsigned> &dim : layout.dims)
      llvm::erase_if(dim, [&](unsigned axis) { return sizes[axis] == 1; });
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 1)
        layout.partial &= ~(AxisMask(1) << i);
    return layout;
  };
  TensorLayout from = clean(givenFrom), to = clean(givenTo);
  if (from == to)
    return {};
  std::vector<unsigned> involved, others;
  for (unsigned i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1)
      (getPlace(from, i) == getPlace(to, i) ? others : involved).push_back(i);
  if (to.partial && from.partial && from.isMax != to.isMax)
    // What is partial in both has to be reduced nevertheless.
    while (!others.empty()) {
      involved.push_back(others.back());
      others.pop_back();
    }
  AxisMask movable = 0;
  for (unsigned axis : involved)
    movable |= AxisMask(1) << axis;
  for (size_t i = 0, count = involved.size(); i < others.size() && count < 4;
       ++i, ++count)
    movable |= AxisMask(1) << others[i];
  // What stands before an axis that stays has to stay, too.
  TensorLayout base = from;
  for (std::vector<unsigned> &dim : base.dims)
    while (!dim.empty() && (movable >> dim.back() & 1))
      dim.pop_back();
  for (const std::vector<unsigned> &dim : base.dims)
    for (unsigned axis : dim)
      movable &= ~(AxisMask(1) << axis);
  base.partial &= ~movable;
  base.isMax = false;
  Key key{shape.vec(), elementBytes, movable, base,
          to.partial ? to.isMax : from.isMax};
  std::unique_ptr<Graph> &graph = graphs[key];
  if (!graph) {
    // Few axes of few devices: other orders of rows than those of layouts pay
    // now and then, and are few enough.
    bool leavesLayouts =
        llvm::popcount(movable) <= 3 && topology->getNumDevices() <= 64;
    graph = std::make_unique<Graph>(
        ReshardingMoves(*topology, shape.vec(), elementBytes, movable, base,
                        key.isMax),
        leavesLayouts, topology->getCluster().device.launch);
  }
  return graph->find(from, to);
}
