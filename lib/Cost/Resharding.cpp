//===- Resharding.cpp - The cheapest way between two layouts --------------===//

#include "heddle/Cost/Resharding.h"
#include "ReshardingGraph.h"
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
  explicit Graph(ReshardingMoves moves) : moves(std::move(moves)) {}

  Resharding find(const TensorLayout &from, const TensorLayout &to);

private:
  struct Edge {
    unsigned target;
    int64_t picoseconds;
    ReshardingStep step;
  };
  struct Node {
    TensorLayout layout;
    std::optional<std::vector<Edge>> edges;
  };

  unsigned intern(const TensorLayout &layout);
  const std::vector<Edge> &edgesOf(unsigned node);

  ReshardingMoves moves;
  std::vector<Node> nodes;
  std::map<std::string, unsigned> numbers;
};

unsigned ReshardingPlanner::Graph::intern(const TensorLayout &given) {
  TensorLayout layout = moves.canonicalize(given);
  std::string key;
  for (const std::vector<unsigned> &dim : layout.dims) {
    key.append(dim.begin(), dim.end());
    key.push_back(char(0x7f));
  }
  for (AxisMask rest = layout.partial; rest; rest >>= 8)
    key.push_back(char(rest & 0xff));
  key.push_back(char(layout.partial && layout.isMax));
  auto [known, isNew] = numbers.try_emplace(key, unsigned(nodes.size()));
  if (isNew)
    nodes.push_back({layout, std::nullopt});
  return known->second;
}

const std::vector<ReshardingPlanner::Graph::Edge> &
ReshardingPlanner::Graph::edgesOf(unsigned node) {
  if (!nodes[node].edges) {
    std::vector<Edge> edges;
    // Whole picoseconds, so that sums do not depend on their order.
    for (ReshardingStep &step : moves.from(TensorLayout(nodes[node].layout))) {
      unsigned target = intern(step.after);
      step.after = nodes[target].layout;
      edges.push_back(
          {target, std::llround(step.cost.seconds * 1e12), std::move(step)});
    }
    nodes[node].edges = std::move(edges);
  }
  return *nodes[node].edges;
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
  unsigned start = intern(from), goal = intern(to), discovered = 1;
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
    const std::vector<Edge> &edges = edgesOf(node);
    reached.resize(nodes.size());
    for (auto [i, edge] : llvm::enumerate(edges)) {
      Reached &target = reached[edge.target];
      auto now = std::pair(reached[node].picoseconds + edge.picoseconds,
                           reached[node].steps + 1);
      if (target.done || now >= std::pair(target.picoseconds, target.steps))
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
  for (unsigned node = goal; node != start; node = reached[node].previous)
    result.steps.push_back(
        (*nodes[reached[node].previous].edges)[reached[node].edge].step);
  std::reverse(result.steps.begin(), result.steps.end());
  for (ReshardingStep &step : result.steps) {
    if (step.kind == ReshardingStep::Permute)
      step.sources = moves.getSources(
          &step == result.steps.data() ? from : (&step)[-1].after, step);
    result.cost += step.cost;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Planner
//===----------------------------------------------------------------------===//

struct ReshardingPlanner::Key {
  std::vector<int64_t> shape;
  int64_t elementBytes;
  AxisMask movable;
  bool isMax;

  auto tie() const { return std::tie(shape, elementBytes, movable, isMax); }
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
  Key key{shape.vec(), elementBytes, movable,
          to.partial ? to.isMax : from.isMax};
  std::unique_ptr<Graph> &graph = graphs[key];
  if (!graph)
    graph = std::make_unique<Graph>(ReshardingMoves(
        *topology, shape.vec(), elementBytes, movable, key.isMax));
  return graph->find(from, to);
}
