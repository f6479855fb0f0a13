//===- ReshardingPlanner.cpp - The cheapest way between two layouts -------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

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
// The axes that move
//===----------------------------------------------------------------------===//

/// The number of axes that may have any place. If more axes have to move, each
/// may only have its place in `from` or `to`.
static constexpr int kMostFreeAxes = 4;

/// Returns the layout of the axes that may stay where they are. These are the
/// axes over which both layouts are partial, and major axes that both layouts
/// share in a dimension: as many as are possible such that the parts over all
/// axes nest in the parts over these.
static TensorLayout getCommonLayout(const LayoutGeometry &geometry,
                                    const TensorLayout &from,
                                    const TensorLayout &to) {
  TensorLayout common;
  // A partial sum and a partial maximum have no parts in common.
  if (from.isMax == to.isMax)
    common.partial = from.partial & to.partial;
  for (size_t dim = 0; dim < geometry.getRank(); ++dim) {
    ArrayRef<unsigned> a = from.dims[dim], b = to.dims[dim];
    size_t count = 0;
    while (count < std::min(a.size(), b.size()) && a[count] == b[count])
      ++count;
    auto doNest = [&](ArrayRef<unsigned> axes) {
      return geometry.doPartsNest(dim, axes.take_front(count),
                                  axes.drop_front(count));
    };
    while (!doNest(a) || !doNest(b))
      --count;
    common.dims.push_back(a.take_front(count).vec());
  }
  return common;
}

/// Adds every ordered selection of `axes` to `lists`, each after `chosen`.
static void listOrders(const MeshTopology &topology, AxisMask axes,
                       std::vector<unsigned> &chosen,
                       std::vector<std::vector<unsigned>> &lists) {
  for (unsigned axis : topology.listAxes(axes)) {
    chosen.push_back(axis);
    lists.push_back(chosen);
    listOrders(topology, axes & ~(AxisMask(1) << axis), chosen, lists);
    chosen.pop_back();
  }
}

/// Adds only the lists that are enough to find a path: each movable axis alone,
/// the axes of the partial sum, and the minor axes of each dimension of `to`.
static void listNeeded(const MeshTopology &topology, const TensorLayout &from,
                       const TensorLayout &to, AxisPlaces &places) {
  for (unsigned axis : topology.listAxes(places.movable))
    places.lists.push_back({axis});
  places.lists.push_back(topology.listAxes(from.partial & places.movable));
  for (auto [base, axes] : llvm::zip(places.base.dims, to.dims))
    for (size_t kept = base.size(); kept < axes.size(); ++kept)
      places.lists.emplace_back(axes.begin() + int64_t(kept), axes.end());
  llvm::erase_if(places.lists, [](const auto &list) { return list.empty(); });
  llvm::sort(places.lists);
  places.lists.erase(llvm::unique(places.lists), places.lists.end());
}

/// Chooses the axes that move, and their places. Axes that are `closed` do not
/// move unless a layout uses them. If at most kMostFreeAxes axes
/// have to move, these may have any place.
static AxisPlaces choosePlaces(const MeshTopology &topology,
                               const LayoutGeometry &geometry, AxisMask closed,
                               const TensorLayout &from,
                               const TensorLayout &to) {
  AxisPlaces places;
  places.base = getCommonLayout(geometry, from, to);
  AxisMask used = getUsedAxes(from) | getUsedAxes(to);
  AxisMask wanted = used & ~getUsedAxes(places.base);
  bool isFew = llvm::popcount(wanted) <= kMostFreeAxes;
  // Adds axes up to the limit. Those that neither layout uses come first,
  // because devices along them can share the work.
  for (AxisMask more : {~used, places.base.partial, ~AxisMask(0)})
    for (unsigned axis : topology.listAxes(more & ~wanted & ~(closed & ~used)))
      if (topology.getAxisSizes()[axis] > 1 &&
          llvm::popcount(wanted) < kMostFreeAxes)
        wanted |= AxisMask(1) << axis;
  // An axis must stay if a minor axis of the same dimension stays.
  places.base.partial &= ~wanted;
  for (std::vector<unsigned> &dim : places.base.dims)
    while (!dim.empty() && (wanted >> dim.back() & 1))
      dim.pop_back();
  places.movable = wanted & ~getSplittingAxes(places.base);
  places.partial = isFew ? places.movable : from.partial | to.partial;
  for (size_t dim = 0; dim < geometry.getRank(); ++dim) {
    AxisMask splitting = 0;
    for (const TensorLayout &layout : {from, to})
      for (unsigned axis : layout.dims[dim])
        splitting |= AxisMask(1) << axis;
    places.splitting.push_back(isFew ? places.movable : splitting);
  }
  places.mayPermute = isFew;
  std::vector<unsigned> chosen;
  if (isFew)
    listOrders(topology, places.movable, chosen, places.lists);
  else
    listNeeded(topology, from, to, places);
  return places;
}

//===----------------------------------------------------------------------===//
// Planner
//===----------------------------------------------------------------------===//

struct ReshardingPlanner::Key {
  std::vector<int64_t> shape;
  int64_t elementBytes;
  AxisPlaces places;

  auto tie() const {
    return std::tie(shape, elementBytes, places.base.dims, places.base.partial,
                    places.movable, places.splitting, places.partial,
                    places.lists);
  }
  bool operator<(const Key &other) const { return tie() < other.tie(); }
};

struct ReshardingPlanner::Searcher {
  Searcher(const MeshTopology &topology, const LayoutGeometry &geometry,
           const Key &key)
      : graph(topology, geometry, key.places) {}

  Resharding find(const TensorLayout &from, const TensorLayout &to) {
    unsigned start = graph.getNode(from);
    if (!latest || latest->getStart() != start)
      latest.emplace(graph, start);
    return latest->find(graph.getNode(to));
  }

  ReshardingGraph graph;
  /// The search from the latest start. Searches from all layouts would take
  /// much memory.
  std::optional<ReshardingSearch> latest;
};

ReshardingPlanner::ReshardingPlanner(MeshTopology topology, AxisMask closed)
    : topology(std::make_unique<MeshTopology>(std::move(topology))),
      closed(closed) {}
ReshardingPlanner::~ReshardingPlanner() = default;
ReshardingPlanner::ReshardingPlanner(ReshardingPlanner &&) noexcept = default;

/// Removes axes of size 1, which have no effect.
TensorLayout ReshardingPlanner::getClean(TensorLayout layout) const {
  ArrayRef<int64_t> sizes = topology->getAxisSizes();
  for (std::vector<unsigned> &dim : layout.dims)
    llvm::erase_if(dim, [&](unsigned axis) { return sizes[axis] == 1; });
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] == 1)
      layout.partial &= ~(AxisMask(1) << axis);
  layout.isMax &= layout.partial != 0;
  return layout;
}

Resharding ReshardingPlanner::find(ArrayRef<int64_t> shape,
                                   int64_t elementBytes,
                                   const TensorLayout &givenFrom,
                                   const TensorLayout &givenTo) {
  TensorLayout from = getClean(givenFrom), to = getClean(givenTo);
  if (!to.isMax)
    return findExactly(shape, elementBytes, from, to);
  // Copies are parts of their maximum. So a value that is partial over fewer
  // axes may take the place of the wanted one.
  AxisMask kept = from.isMax ? from.partial & to.partial : 0;
  std::optional<Resharding> best;
  for (AxisMask partial = kept;; partial = (partial - 1) & kept) {
    to.partial = partial;
    to.isMax = partial != 0;
    Resharding found = findExactly(shape, elementBytes, from, to);
    if (!best || found.cost.seconds < best->cost.seconds)
      best = std::move(found);
    if (!partial)
      return *best;
  }
}

Resharding ReshardingPlanner::findExactly(ArrayRef<int64_t> shape,
                                          int64_t elementBytes,
                                          const TensorLayout &from,
                                          const TensorLayout &to) {
  if (from == to)
    return {};
  ArrayRef<int64_t> sizes = topology->getAxisSizes();
  LayoutGeometry geometry(sizes, shape, elementBytes);
  Key key{shape.vec(), elementBytes,
          choosePlaces(*topology, geometry, closed, from, to)};
  std::unique_ptr<Searcher> &searcher = searchers[key];
  if (!searcher)
    searcher = std::make_unique<Searcher>(*topology, geometry, key);
  return searcher->find(from, to);
}

const Resharding &KnownReshardings::find(ArrayRef<int64_t> shape,
                                         int64_t elementBytes,
                                         const TensorLayout &from,
                                         const TensorLayout &to) {
  auto getKey = [](const TensorLayout &layout) {
    return Layout(layout.dims, layout.partial, layout.isMax);
  };
  auto [entry, isNew] = known.try_emplace(
      Key(shape.vec(), elementBytes, getKey(from), getKey(to)));
  if (isNew)
    entry->second = planner.find(shape, elementBytes, from, to);
  return entry->second;
}
