//===- ReshardingGraph.cpp - Single ops on layouts ------------------------===//

#include "ReshardingGraph.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MathExtras.h"
#include <functional>

using namespace heddle;
using llvm::ArrayRef;

static AxisMask bit(unsigned axis) { return AxisMask(1) << axis; }

static std::vector<unsigned> listOf(AxisMask axes) {
  std::vector<unsigned> list;
  for (unsigned i = 0; i < 32; ++i)
    if (axes & bit(i))
      list.push_back(i);
  return list;
}

static AxisMask maskOf(ArrayRef<unsigned> axes) {
  AxisMask mask = 0;
  for (unsigned axis : axes)
    mask |= bit(axis);
  return mask;
}

/// Every non-empty selection of the axes in every order.
static void forEachOrder(AxisMask axes,
                         llvm::function_ref<void(ArrayRef<unsigned>)> visit) {
  std::vector<unsigned> chosen;
  std::function<void(AxisMask)> extend = [&](AxisMask rest) {
    if (!chosen.empty())
      visit(chosen);
    for (unsigned axis : listOf(rest)) {
      chosen.push_back(axis);
      extend(rest & ~bit(axis));
      chosen.pop_back();
    }
  };
  extend(axes);
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t ReshardingMoves::getSize(ArrayRef<unsigned> axes) const {
  return topology.getSize(maskOf(axes));
}

int64_t ReshardingMoves::getPart(size_t dim, int64_t parts) const {
  return llvm::divideCeil(shape[dim], parts);
}

int64_t ReshardingMoves::getBytes(const TensorLayout &layout) const {
  int64_t bytes = elementBytes;
  for (size_t i = 0; i < shape.size(); ++i)
    bytes *= getPart(i, getSize(layout.dims[i]));
  return bytes;
}

bool ReshardingMoves::nests(size_t dim, int64_t parts, int64_t more) const {
  int64_t part = getPart(dim, parts);
  return part >= shape[dim] || more * getPart(dim, parts * more) == part;
}

const std::vector<std::vector<unsigned>> &
ReshardingMoves::getOrders(size_t dim, const std::vector<unsigned> &list) {
  auto [known, isNew] = orders.try_emplace({dim, list});
  if (!isNew)
    return known->second;
  int64_t parts = getSize(list);
  int64_t rows = std::max<int64_t>(1, getPart(dim, parts));
  int64_t filled = llvm::divideCeil(shape[dim], rows);
  // The part of each device, if it has rows.
  auto partsOf = [&](ArrayRef<unsigned> axes) {
    std::vector<int64_t> parts;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
      int64_t part = 0;
      for (unsigned axis : axes)
        part = part * topology.getAxisSizes()[axis] +
               topology.getCoordinate(device, axis);
      parts.push_back(std::min(part, filled));
    }
    return parts;
  };
  if (list.size() < 2 || filled == parts) {
    known->second = {list};
    return known->second;
  }
  std::vector<int64_t> wanted = partsOf(list);
  std::vector<unsigned> order = list;
  llvm::sort(order);
  do
    if (partsOf(order) == wanted)
      known->second.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return known->second;
}

TensorLayout ReshardingMoves::canonicalize(TensorLayout layout) {
  for (auto [dim, list] : llvm::enumerate(layout.dims))
    list = std::vector<unsigned>(getOrders(dim, list).front());
  return layout;
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

void ReshardingMoves::slices(AxisMask free) {
  forEachOrder(free, [&](ArrayRef<unsigned> axes) {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      std::vector<unsigned> &list = layout.dims[dim];
      if (!nests(dim, getSize(list), getSize(axes)))
        continue;
      ReshardingStep step{ReshardingStep::Slice, axes.vec(), unsigned(dim)};
      step.after = layout;
      llvm::append_range(step.after.dims[dim], axes);
      step.cost = topology.local(getBytes(step.after));
      add(std::move(step));
    }
  });
}

void ReshardingMoves::reductions() {
  AxisMask partial = layout.partial & movable;
  forEachOrder(partial, [&](ArrayRef<unsigned> axes) {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (!nests(dim, getSize(layout.dims[dim]), getSize(axes)))
        continue;
      ReshardingStep step{ReshardingStep::ReduceScatter, axes.vec(),
                          unsigned(dim)};
      step.after = layout;
      step.after.partial &= ~maskOf(axes);
      llvm::append_range(step.after.dims[dim], axes);
      step.cost = topology.reduceScatter(maskOf(axes), getBytes(step.after));
      add(std::move(step));
    }
  });
  for (AxisMask axes = partial; axes; axes = (axes - 1) & partial) {
    ReshardingStep step{ReshardingStep::AllReduce, listOf(axes)};
    step.after = layout;
    step.after.partial &= ~axes;
    step.cost = topology.allReduce(axes, getBytes(layout));
    add(std::move(step));
  }
}

void ReshardingMoves::gathers() {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    ArrayRef<unsigned> list = layout.dims[dim];
    for (size_t keep = list.size();
         keep-- > 0 && (movable & bit(list[keep]));) {
      ArrayRef<unsigned> axes = list.drop_front(keep);
      if (!nests(dim, getSize(list.take_front(keep)), getSize(axes)))
        continue;
      ReshardingStep step{ReshardingStep::AllGather, axes.vec(), unsigned(dim)};
      step.after = layout;
      step.after.dims[dim].resize(keep);
      step.cost = topology.allGather(maskOf(axes), getBytes(layout));
      add(std::move(step));
    }
  }
}

void ReshardingMoves::exchanges() {
  for (size_t from = 0; from < shape.size(); ++from) {
    ArrayRef<unsigned> list = layout.dims[from];
    for (size_t keep = list.size();
         keep-- > 0 && (movable & bit(list[keep]));) {
      ArrayRef<unsigned> axes = list.drop_front(keep);
      int64_t members = getSize(axes);
      if (!nests(from, getSize(list.take_front(keep)), members))
        continue;
      for (size_t to = 0; to < shape.size(); ++to) {
        if (to == from || !nests(to, getSize(layout.dims[to]), members))
          continue;
        ReshardingStep step{ReshardingStep::AllToAll, axes.vec(), unsigned(to),
                            unsigned(from)};
        step.after = layout;
        step.after.dims[from].resize(keep);
        llvm::append_range(step.after.dims[to], axes);
        // A block has the rows of the part in both dimensions.
        TensorLayout block = layout;
        llvm::append_range(block.dims[to], axes);
        step.cost = topology.allToAll(maskOf(axes), getBytes(block));
        add(std::move(step));
      }
    }
  }
}

void ReshardingMoves::keepFirst(AxisMask free) {
  if (layout.partial && layout.isMax != wantedMax)
    return;
  for (AxisMask axes = free; axes; axes = (axes - 1) & free) {
    ReshardingStep step{ReshardingStep::KeepFirst, listOf(axes)};
    step.after = layout;
    step.after.partial |= axes;
    step.after.isMax = wantedMax;
    // A value is the maximum of copies of it as it is.
    if (!wantedMax)
      step.cost = topology.local(getBytes(layout));
    add(std::move(step));
  }
}

std::vector<ReshardingStep> ReshardingMoves::from(TensorLayout given) {
  steps.clear();
  AxisMask used = given.partial;
  for (const std::vector<unsigned> &dim : given.dims)
    used |= maskOf(dim);
  AxisMask free = movable & ~used;
  // All that it is at the same time.
  std::function<void(size_t)> visit = [&](size_t dim) {
    if (dim < shape.size()) {
      for (const std::vector<unsigned> &order :
           getOrders(dim, std::vector<unsigned>(given.dims[dim]))) {
        layout.dims[dim] = order;
        visit(dim + 1);
      }
      return;
    }
    slices(free);
    reductions();
    exchanges();
    gathers();
  };
  layout = given;
  visit(0);
  layout = std::move(given);
  permutes(free);
  keepFirst(free);
  return std::move(steps);
}

//===----------------------------------------------------------------------===//
// Permutes
//===----------------------------------------------------------------------===//

/// What stays in place of a dimension: everything up to the last axis that must
/// not move.
static size_t countFixed(ArrayRef<unsigned> list, AxisMask movable) {
  size_t fixed = list.size();
  while (fixed > 0 && (movable & bit(list[fixed - 1])))
    --fixed;
  return fixed;
}

void ReshardingMoves::permutes(AxisMask free) {
  AxisMask pool = free | (layout.partial & movable);
  TensorLayout after = layout;
  after.partial &= ~movable;
  for (std::vector<unsigned> &dim : after.dims) {
    size_t fixed = countFixed(dim, movable);
    pool |= maskOf(ArrayRef<unsigned>(dim).drop_front(fixed));
    dim.resize(fixed);
  }
  choosePlaces(after, 0, pool);
}

void ReshardingMoves::choosePlaces(TensorLayout &after, size_t dim,
                                   AxisMask pool) {
  if (dim < shape.size()) {
    size_t fixed = after.dims[dim].size();
    choosePlaces(
        after, dim,
        getSize(ArrayRef<unsigned>(layout.dims[dim]).drop_front(fixed)), pool);
    return;
  }
  int64_t wanted = topology.getSize(layout.partial & movable);
  AxisMask fixed = after.partial;
  for (AxisMask axes = pool;; axes = (axes - 1) & pool) {
    if (topology.getSize(axes) == wanted) {
      after.partial = fixed | axes;
      if (!(after == layout))
        addPermute(after);
    }
    if (axes == 0)
      break;
  }
  after.partial = fixed;
}

void ReshardingMoves::choosePlaces(TensorLayout &after, size_t dim,
                                   int64_t wanted, AxisMask pool) {
  if (wanted == 1)
    return choosePlaces(after, dim + 1, pool);
  for (unsigned axis : listOf(pool)) {
    int64_t size = topology.getAxisSizes()[axis];
    if (wanted % size)
      continue;
    after.dims[dim].push_back(axis);
    choosePlaces(after, dim, wanted / size, pool & ~bit(axis));
    after.dims[dim].pop_back();
  }
}

/// Of each axis the dimension that it splits (the rank: it is partial) and the
/// number of parts that a step along it passes; -1 where it counts for nothing.
static std::vector<std::pair<int64_t, int64_t>>
getStrides(const TensorLayout &layout, const MeshTopology &topology) {
  ArrayRef<int64_t> sizes = topology.getAxisSizes();
  std::vector<std::pair<int64_t, int64_t>> strides(sizes.size(), {-1, 0});
  auto count = [&](ArrayRef<unsigned> axes, int64_t where) {
    int64_t stride = 1;
    for (unsigned axis : llvm::reverse(axes)) {
      strides[axis] = {where, stride};
      stride *= sizes[axis];
    }
  };
  for (auto [i, dim] : llvm::enumerate(layout.dims))
    count(dim, int64_t(i));
  count(listOf(layout.partial), int64_t(layout.dims.size()));
  return strides;
}

std::vector<unsigned>
ReshardingMoves::getMovedAxes(const TensorLayout &after) const {
  auto before = getStrides(layout, topology);
  auto then = getStrides(after, topology);
  std::vector<unsigned> moved;
  for (unsigned i = 0; i < before.size(); ++i)
    if (before[i] != then[i])
      moved.push_back(i);
  return moved;
}

std::vector<std::vector<int64_t>>
ReshardingMoves::getGroups(ArrayRef<unsigned> axes) const {
  std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
  AxisMask mask = maskOf(axes);
  for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
    std::vector<int64_t> rest;
    for (unsigned i = 0; i < topology.getAxisSizes().size(); ++i)
      if (!(mask & bit(i)))
        rest.push_back(topology.getCoordinate(device, i));
    groups[rest].push_back(device);
  }
  std::vector<std::vector<int64_t>> all;
  for (auto &[rest, members] : groups)
    all.push_back(std::move(members));
  return all;
}

std::vector<int64_t>
ReshardingMoves::getSources(const TensorLayout &before,
                            const ReshardingStep &permute) const {
  // Which part of each dimension, and of the sum, as far as the axes say.
  auto partOf = [&](int64_t device, const TensorLayout &layout,
                    const auto &strides) {
    std::vector<int64_t> part(shape.size() + 1);
    for (unsigned axis : permute.axes)
      if (auto [where, stride] = strides[axis]; where >= 0)
        part[where] += stride * topology.getCoordinate(device, axis);
    // If they say all, then also that it is only padding.
    if (getSize(permute.axes) == topology.getNumDevices())
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        int64_t rows = getPart(dim, getSize(layout.dims[dim]));
        if (part[dim] * rows >= shape[dim])
          part[dim] = -1;
      }
    return part;
  };
  auto has = getStrides(before, topology);
  auto needs = getStrides(permute.after, topology);
  // The first group; all others are like it.
  std::vector<int64_t> members = getGroups(permute.axes).front();
  std::map<std::vector<int64_t>, std::vector<size_t>> holders;
  for (auto [i, device] : llvm::enumerate(members))
    holders[partOf(device, before, has)].push_back(i);
  // Of all that hold a part, each gives to one: to itself, else to the nearest.
  std::vector<int64_t> sources(members.size(), -1);
  std::vector<bool> isGiven(members.size());
  int levels = int(topology.getCluster().levels.size());
  for (int level = -1; level < levels; ++level)
    for (auto [i, device] : llvm::enumerate(members)) {
      if (sources[i] >= 0)
        continue;
      for (size_t holder : holders[partOf(device, permute.after, needs)])
        if (!isGiven[holder] &&
            topology.getMeetingLevel(device, members[holder]) <= level) {
          sources[i] = int64_t(holder);
          isGiven[holder] = true;
          break;
        }
    }
  return sources;
}

bool ReshardingMoves::setPermuteCost(ReshardingStep &step) const {
  std::vector<int64_t> sources = getSources(layout, step);
  // Strides of axes of different sizes may not go into one another.
  if (llvm::is_contained(sources, -1))
    return false;
  std::vector<int64_t> all(topology.getNumDevices());
  for (const std::vector<int64_t> &members : getGroups(step.axes))
    for (auto [i, member] : llvm::enumerate(members))
      all[member] = members[sources[i]];
  step.cost = topology.permute(all, getBytes(layout));
  return true;
}

void ReshardingMoves::addPermute(const TensorLayout &after) {
  ReshardingStep step{ReshardingStep::Permute, getMovedAxes(after)};
  step.after = after;
  bool isPossible = setPermuteCost(step);
  // Over the whole mesh there is more choice: parts that are only padding, and
  // what is nearer outside of the group.
  ReshardingStep wide = step;
  wide.axes.clear();
  for (unsigned i = 0; i < topology.getAxisSizes().size(); ++i)
    if (topology.getAxisSizes()[i] > 1)
      wide.axes.push_back(i);
  if (wide.axes != step.axes && setPermuteCost(wide) &&
      (!isPossible || wide.cost.seconds < step.cost.seconds)) {
    step = std::move(wide);
    isPossible = true;
  }
  if (isPossible)
    add(std::move(step));
}
