//===- Resharding.cpp - The cheapest way between two layouts --------------===//

#include "heddle/Cost/Resharding.h"
#include "ReshardingMoves.h"
#include "llvm/Support/MathExtras.h"
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
  Graph(ReshardingMoves moves, unsigned mostUnnamed)
      : moves(std::move(moves)), mostUnnamed(mostUnnamed) {}

  Resharding find(const TensorLayout &from, const TensorLayout &to);

private:
  struct Edge {
    /// What it takes; of a permute that has not been weighed, at least.
    int64_t least = 0, picoseconds = 0;
    unsigned target = 0, number = 0;
    /// Of a permute: whether it has been weighed, and can be.
    AxisMask aligned = 0;
    bool isWeighed = true, isPossible = true;
    const PermuteGoal *goal = nullptr;
    std::unique_ptr<Move> move = nullptr;
  };
  struct Node {
    HeldTensor held;
    bool isLayout;
    /// Those that take least first.
    std::optional<std::vector<Edge>> edges = {};
  };
  /// How a search has come to a node.
  struct Reached {
    unsigned search = 0; ///< the number of the search that this is of
    int64_t picoseconds = INT64_MAX;
    unsigned steps = 0, permutes = 0, number = 0;
    unsigned previous = 0, edge = 0;
    /// States up to here that no layout describes.
    unsigned unnamed = 0;
    /// Picoseconds from here on at least.
    int64_t rest = -1;
    bool done = false;
  };

  unsigned intern(const HeldTensor &held);
  std::vector<Edge> &edgesOf(unsigned node);
  ReshardingStep makeStep(const Move &move);

  ReshardingMoves moves;
  unsigned mostUnnamed;
  std::vector<Node> nodes;
  std::vector<Reached> reachedNodes;
  unsigned searches = 0;
  std::map<std::vector<unsigned>, unsigned> numbers;
};

/// Whole picoseconds, so that sums do not depend on their order.
static int64_t toPicoseconds(CollectiveCost cost) {
  return std::llround(cost.seconds * 1e12);
}

unsigned ReshardingPlanner::Graph::intern(const HeldTensor &held) {
  std::vector<unsigned> key = held.rows;
  key.push_back(held.summands);
  key.push_back(held.isMax);
  auto [known, isNew] = numbers.try_emplace(key, unsigned(nodes.size()));
  if (isNew)
    nodes.push_back({held, moves.isLayout(held)});
  return known->second;
}

std::vector<ReshardingPlanner::Graph::Edge> &
ReshardingPlanner::Graph::edgesOf(unsigned number) {
  if (nodes[number].edges)
    return *nodes[number].edges;
  std::vector<Edge> edges;
  HeldTensor held = nodes[number].held;
  for (Move &move : moves.from(held)) {
    int64_t picoseconds = toPicoseconds(move.cost);
    unsigned target = intern(move.after);
    edges.push_back({picoseconds, picoseconds, target});
    edges.back().move = std::make_unique<Move>(std::move(move));
  }
  for (auto [goal, seconds] : moves.getPermutes(held))
    for (AxisMask aligned : moves.getAlignments(*goal)) {
      edges.push_back({toPicoseconds({seconds, 0}), 0, 0, 0, aligned});
      edges.back().isWeighed = false;
      edges.back().goal = goal;
    }
  for (auto [i, edge] : llvm::enumerate(edges))
    edge.number = unsigned(i);
  llvm::sort(edges, [](const Edge &a, const Edge &b) {
    return std::tie(a.least, a.number) < std::tie(b.least, b.number);
  });
  nodes[number].edges = std::move(edges);
  return *nodes[number].edges;
}

ReshardingStep ReshardingPlanner::Graph::makeStep(const Move &move) {
  ReshardingStep step{move.kind, move.axes, move.dim, move.concatDim};
  if (move.kind == ReshardingStep::Permute)
    step.axes = moves.getGroupAxes(move.sources, step.sources);
  step.localShape = moves.getLocalShape(move.after);
  for (size_t dim = 0; dim < step.localShape.size(); ++dim)
    step.isPadded.push_back(moves.isPadded(move.after, dim));
  step.isMax = move.after.isMax;
  step.after = moves.getLayout(move.after);
  step.cost = move.cost;
  return step;
}

/// A* search: what a device has yet to receive takes its time. Of each node
/// only the next edge stands in the queue, with what it takes at least; what a
/// permute takes is found out when it is met there.
Resharding ReshardingPlanner::Graph::find(const TensorLayout &from,
                                          const TensorLayout &to) {
  // Cost, steps, permutes among them, and order of discovery, which does not
  // depend on what other searches have interned before; then a node, and an
  // edge of it.
  constexpr unsigned none = ~0u;
  using Entry =
      std::tuple<int64_t, unsigned, unsigned, unsigned, unsigned, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
  HeldTensor wanted = moves.hold(to);
  unsigned start = intern(moves.hold(from)), goal = none;
  unsigned discovered = 1;
  ++searches;
  auto reached = [&](unsigned node) -> Reached & {
    if (reachedNodes.size() < nodes.size())
      reachedNodes.resize(nodes.size());
    Reached &here = reachedNodes[node];
    if (here.search != searches)
      here = {.search = searches};
    return here;
  };
  reached(start).picoseconds = 0;
  queue.push({0, 0, 0, 0, start, none});
  auto restOf = [&](unsigned node) {
    Reached &here = reached(node);
    if (here.rest < 0)
      here.rest = moves.isHeldAs(nodes[node].held, wanted, to)
                      ? 0
                      : moves.getLeastRest(nodes[node].held, wanted);
    return here.rest;
  };
  auto relax = [&](unsigned node, unsigned number) {
    const Edge &edge = (*nodes[node].edges)[number];
    const Reached here = reached(node);
    auto now = std::tuple(here.picoseconds + edge.picoseconds, here.steps + 1,
                          here.permutes + (edge.goal != nullptr));
    unsigned unnamed = nodes[edge.target].isLayout ? 0 : here.unnamed + 1;
    if (Reached &target = reached(edge.target);
        target.done || unnamed > mostUnnamed ||
        now >= std::tuple(target.picoseconds, target.steps, target.permutes))
      return;
    int64_t rest = restOf(edge.target);
    auto [picoseconds, steps, permutes] = now;
    reached(edge.target) = {searches, picoseconds, steps,
                            permutes, discovered,  node,
                            number,   unnamed,     rest};
    queue.push(
        {picoseconds + rest, steps, permutes, discovered++, edge.target, none});
  };
  auto weigh = [&](unsigned node, unsigned number) {
    Edge &edge = (*nodes[node].edges)[number];
    if (!edge.isWeighed) {
      edge.isWeighed = true;
      std::optional<Move> move =
          moves.permute(nodes[node].held, *edge.goal, edge.aligned);
      edge.isPossible = move.has_value();
      if (move) {
        edge.picoseconds = toPicoseconds(move->cost);
        edge.target = intern(move->after);
        edge.move = std::make_unique<Move>(std::move(*move));
      }
    }
    return edge.isPossible;
  };
  auto enqueue = [&](unsigned node, unsigned number) {
    const std::vector<Edge> &edges = edgesOf(node);
    if (number < edges.size())
      queue.push({reached(node).picoseconds +
                      std::max(edges[number].least, restOf(node)),
                  reached(node).steps + 1,
                  reached(node).permutes + (edges[number].goal != nullptr),
                  discovered++, node, number});
  };
  while (goal == none) {
    auto [cost, steps, permutes, order, node, number] = queue.top();
    queue.pop();
    if (number != none) {
      enqueue(node, number + 1);
      if (weigh(node, number))
        relax(node, number);
      continue;
    }
    if (reached(node).done || order != reached(node).number)
      continue;
    if (moves.isHeldAs(nodes[node].held, wanted, to)) {
      goal = node;
      break;
    }
    reached(node).done = true;
    enqueue(node, 0);
  }
  auto movesTo = [&](unsigned node) {
    std::vector<Move> path;
    for (; node != start; node = reached(node).previous)
      path.push_back(
          *(*nodes[reached(node).previous].edges)[reached(node).edge].move);
    std::reverse(path.begin(), path.end());
    return path;
  };
  Resharding result;
  if (moves.isSmall()) {
    // Permutes to what no goal is, in as many ops as make sense.
    int64_t below = reached(goal).picoseconds;
    const HeldTensor held = nodes[start].held;
    std::vector<Move> found;
    auto improve = [&](std::vector<Move> cheaper, unsigned after) {
      if (cheaper.empty())
        return;
      found = movesTo(after);
      llvm::append_range(found, cheaper);
      below = 0;
      for (const Move &move : found)
        below += toPicoseconds(move.cost);
    };
    improve(moves.permuteFirst(held, wanted, to, 2, below), start);
    improve(moves.bridge(held, wanted, to, below), start);
    // What they may come after has been met, since they take no less than what
    // is yet to be received. In the order of discovery.
    std::vector<std::pair<unsigned, unsigned>> met;
    for (auto [node, here] : llvm::enumerate(reachedNodes))
      if (here.search == searches && here.picoseconds < below)
        met.emplace_back(here.number, unsigned(node));
    llvm::sort(met);
    for (auto [number, node] : met) {
      int64_t before = reached(node).picoseconds;
      const HeldTensor held = nodes[node].held;
      if (node != start)
        improve(moves.permuteFirst(held, wanted, to, 1, below - before), node);
      improve(moves.relay(held, wanted, to, node == start, below - before),
              node);
    }
    for (const Move &move : found) {
      result.steps.push_back(makeStep(move));
      result.cost += result.steps.back().cost;
    }
  }
  if (!result.steps.empty())
    return result;
  for (const Move &move : movesTo(goal)) {
    result.steps.push_back(makeStep(move));
    result.cost += result.steps.back().cost;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Planner
//===----------------------------------------------------------------------===//

struct ReshardingPlanner::Key {
  /// Of a slice.
  std::vector<int64_t> shape;
  int64_t elementBytes;
  AxisMask movable, removed;
  /// Where the other axes are.
  TensorLayout base;

  auto tie() const {
    return std::tie(shape, elementBytes, movable, removed, base.dims,
                    base.partial);
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

/// Of the axes that stand in front in both lists, those between whose members
/// rows have to move nevertheless: 10 rows over 4 devices are 3 each, but 2
/// each over 8, so that two of 8 have 4 rows.
static AxisMask getCrossedAxes(const MeshTopology &topology, int64_t rows,
                               ArrayRef<unsigned> from, ArrayRef<unsigned> to) {
  if (from == to)
    return 0;
  auto getParts = [&](ArrayRef<unsigned> axes) {
    int64_t parts = 1;
    for (unsigned axis : axes)
      parts *= topology.getAxisSizes()[axis];
    return parts;
  };
  size_t common = 0;
  while (common < from.size() && common < to.size() &&
         from[common] == to[common])
    ++common;
  AxisMask crossed = 0;
  for (size_t count = common; count > 0; --count) {
    int64_t parts = getParts(from.take_front(count));
    if (llvm::all_of(ArrayRef({from, to}), [&](ArrayRef<unsigned> axes) {
          int64_t all = getParts(axes);
          return int64_t(llvm::divideCeil(rows, all)) * (all / parts) ==
                 int64_t(llvm::divideCeil(rows, parts));
        }))
      break;
    crossed |= AxisMask(1) << from[count - 1];
  }
  return crossed;
}

static std::vector<unsigned> withoutAxes(std::vector<unsigned> list,
                                         AxisMask removed) {
  llvm::erase_if(list, [&](unsigned axis) { return removed >> axis & 1; });
  return list;
}

static TensorLayout withoutAxes(TensorLayout layout, AxisMask removed) {
  for (std::vector<unsigned> &dim : layout.dims)
    dim = withoutAxes(std::move(dim), removed);
  layout.partial &= ~removed;
  return layout;
}

/// Axes that stay where they are make slices that all do the same, if all hold
/// equally many rows and no layout has parts of more than one slice's.
const ReshardingPlanner::Slice &
ReshardingPlanner::getSlice(ArrayRef<int64_t> shape, AxisMask movable,
                            const TensorLayout &base) {
  ArrayRef<int64_t> sizes = topology->getAxisSizes();
  AxisMask candidates = 0;
  for (unsigned axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] > 1)
      candidates |= AxisMask(1) << axis;
  candidates &= ~movable;
  for (auto [size, axes] : llvm::zip(shape, base.dims)) {
    AxisMask mask = 0;
    for (unsigned axis : axes)
      mask |= AxisMask(1) << axis;
    if (size % topology->getSize(mask | movable))
      candidates &= ~mask;
  }
  auto [known, isNew] = slices.try_emplace(candidates);
  Slice &slice = known->second;
  for (unsigned axis = 0; isNew && axis < sizes.size(); ++axis) {
    if (!(candidates >> axis & 1))
      continue;
    const MeshTopology &mesh = slice.topology ? *slice.topology : *topology;
    if (std::optional<MeshTopology> rest = mesh.getSlice(axis)) {
      slice.topology = std::make_unique<MeshTopology>(std::move(*rest));
      slice.removed |= AxisMask(1) << axis;
    }
  }
  return slice;
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
  AxisMask crossed = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    crossed |=
        getCrossedAxes(*topology, shape[dim], from.dims[dim], to.dims[dim]);
  for (unsigned i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1)
      (getPlace(from, i) == getPlace(to, i) && !(crossed >> i & 1) ? others
                                                                   : involved)
          .push_back(i);
  if (to.partial && from.partial && from.isMax != to.isMax)
    // What is partial in both has to be reduced nevertheless.
    while (!others.empty()) {
      involved.push_back(others.back());
      others.pop_back();
    }
  AxisMask movable = 0;
  for (unsigned axis : involved)
    movable |= AxisMask(1) << axis;
  // The others help now and then, but the tables grow with each.
  size_t count = involved.size();
  int64_t members = topology->getSize(movable);
  for (unsigned axis : others)
    if (count < 4 && members * sizes[axis] <= 64) {
      members *= sizes[axis];
      movable |= AxisMask(1) << axis;
      ++count;
    }
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
  const Slice &slice = getSlice(shape, movable, base);
  const MeshTopology &mesh = slice.topology ? *slice.topology : *topology;
  from = withoutAxes(from, slice.removed);
  to = withoutAxes(to, slice.removed);
  Key key{shape.vec(), elementBytes, movable, slice.removed,
          withoutAxes(base, slice.removed)};
  for (auto [dim, axes] : llvm::enumerate(base.dims))
    for (unsigned axis : axes)
      if (slice.removed >> axis & 1)
        key.shape[dim] /= sizes[axis];
  std::unique_ptr<Graph> &graph = graphs[key];
  if (!graph) {
    // Few axes of few devices: other orders of rows than those of layouts pay
    // now and then, and are few enough.
    unsigned mostUnnamed =
        llvm::popcount(movable) > 3 || mesh.getNumDevices() > 64 ? 0
        : mesh.getNumDevices() > 8                               ? 1
                                                                 : 2;
    graph = std::make_unique<Graph>(
        ReshardingMoves(mesh, key.shape, elementBytes, movable, key.base),
        mostUnnamed);
  }
  Resharding found = graph->find(from, to);
  for (ReshardingStep &step : found.steps) {
    // What stays is in front of what moves.
    if (AxisMask partial = base.partial & slice.removed) {
      step.isMax = givenFrom.isMax;
      if (step.after)
        step.after->isMax = givenFrom.isMax;
      if (step.after)
        step.after->partial |= partial;
    }
    if (step.after)
      for (auto [dim, axes] : llvm::zip(step.after->dims, base.dims)) {
        dim.erase(dim.begin(),
                  dim.begin() + withoutAxes(axes, slice.removed).size());
        dim.insert(dim.begin(), axes.begin(), axes.end());
      }
  }
  return found;
}
