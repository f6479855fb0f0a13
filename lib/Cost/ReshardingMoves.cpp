//===- ReshardingMoves.cpp - Single ops on what devices hold --------------===//

#include "ReshardingMoves.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <functional>

using namespace heddle;

static AxisMask bit(unsigned axis) { return AxisMask(1) << axis; }

static std::vector<unsigned> listOf(AxisMask axes) {
  std::vector<unsigned> list;
  for (unsigned i = 0; i < 32; ++i)
    if (axes & bit(i))
      list.push_back(i);
  return list;
}

ReshardingMoves::ReshardingMoves(const MeshTopology &topology,
                                 std::vector<int64_t> shape,
                                 int64_t elementBytes, AxisMask movable,
                                 TensorLayout base, bool wantedMax)
    : topology(topology), shape(std::move(shape)), elementBytes(elementBytes),
      movable(movable), base(std::move(base)), wantedMax(wantedMax) {
  for (int64_t size : this->shape)
    dims.emplace_back(topology, size);
  std::vector<unsigned> chosen;
  std::function<void(AxisMask)> extend = [&](AxisMask rest) {
    if (!chosen.empty())
      orders.emplace_back(chosen, movable & ~rest);
    for (unsigned axis : listOf(rest)) {
      chosen.push_back(axis);
      extend(rest & ~bit(axis));
      chosen.pop_back();
    }
  };
  extend(movable);
  for (size_t dim = 0; dim < this->shape.size(); ++dim) {
    dims[dim].ofLayout(this->base.dims[dim]);
    for (const auto &[axes, mask] : orders) {
      std::vector<unsigned> list = this->base.dims[dim];
      llvm::append_range(list, axes);
      dims[dim].ofLayout(list);
    }
  }
  // Permutes between layouts of more axes would be too many to try.
  TensorLayout layout = this->base;
  if (llvm::popcount(movable) <= 4)
    enumerate(0, layout);
}

void ReshardingMoves::enumerate(unsigned axis, TensorLayout &layout) {
  if (axis == topology.getAxisSizes().size()) {
    for (bool isMax : {false, true}) {
      layout.isMax = isMax;
      HeldTensor held = hold(layout);
      std::vector<HeldTensor> &equal = layouts[getSignature(held)];
      if (!llvm::is_contained(equal, held))
        equal.push_back(std::move(held));
    }
    return;
  }
  enumerate(axis + 1, layout);
  if (!(movable & bit(axis)))
    return;
  layout.partial |= bit(axis);
  enumerate(axis + 1, layout);
  layout.partial &= ~bit(axis);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<unsigned> &list = layout.dims[dim];
    for (size_t place = base.dims[dim].size(); place <= list.size(); ++place) {
      list.insert(list.begin() + place, axis);
      enumerate(axis + 1, layout);
      list.erase(list.begin() + place);
    }
  }
}

HeldTensor ReshardingMoves::hold(const TensorLayout &layout) {
  HeldTensor held;
  for (auto [dim, axes] : llvm::zip(dims, layout.dims))
    held.rows.push_back(dim.ofLayout(axes));
  held.partial = layout.partial;
  held.isMax = layout.partial && layout.isMax;
  return held;
}

std::optional<TensorLayout>
ReshardingMoves::getLayout(const HeldTensor &held) const {
  TensorLayout layout{{}, held.partial, held.isMax};
  for (auto [dim, rows] : llvm::zip(dims, held.rows)) {
    if (!dim[rows].layout)
      return std::nullopt;
    layout.dims.push_back(*dim[rows].layout);
  }
  return layout;
}

std::vector<int64_t>
ReshardingMoves::getLocalShape(const HeldTensor &held) const {
  std::vector<int64_t> local;
  for (auto [dim, rows] : llvm::zip(dims, held.rows))
    local.push_back(dim[rows].rows);
  return local;
}

int64_t ReshardingMoves::getBytes(const HeldTensor &held) const {
  int64_t bytes = elementBytes;
  for (int64_t size : getLocalShape(held))
    bytes *= size;
  return bytes;
}

AxisMask ReshardingMoves::getUsed(const HeldTensor &held) const {
  AxisMask used = held.partial;
  for (auto [dim, rows] : llvm::zip(dims, held.rows))
    used |= dim[rows].depends;
  return used;
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

/// Slices of what is held several times, reduce-scatters of what is partial.
void ReshardingMoves::addCuts(const std::vector<unsigned> &axes, AxisMask mask,
                              bool isFree) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    Move move{isFree ? ReshardingStep::Slice : ReshardingStep::ReduceScatter,
              axes, unsigned(dim)};
    move.after = current;
    move.after.rows[dim] = dims[dim].cut(current.rows[dim], axes);
    move.after.partial &= ~mask;
    move.after.isMax &= move.after.partial != 0;
    int64_t bytes = getBytes(move.after);
    move.cost =
        isFree ? topology.local(bytes) : topology.reduceScatter(mask, bytes);
    moves.push_back(std::move(move));
  }
}

/// All-gathers and all-to-alls of what differs along the axes in one dimension.
void ReshardingMoves::addJoins(const std::vector<unsigned> &axes,
                               AxisMask mask) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if ((dims[dim][current.rows[dim]].depends & mask) != mask)
      continue;
    for (unsigned joined : dims[dim].join(current.rows[dim], axes)) {
      Move gather{ReshardingStep::AllGather, axes, unsigned(dim)};
      gather.after = current;
      gather.after.rows[dim] = joined;
      gather.cost = topology.allGather(mask, getBytes(current));
      for (size_t split = 0; split < shape.size(); ++split) {
        if (split == dim)
          continue;
        Move exchange{ReshardingStep::AllToAll, axes, unsigned(split),
                      unsigned(dim)};
        exchange.after = current;
        // A block has the rows of the part in both dimensions.
        exchange.after.rows[split] = dims[split].cut(current.rows[split], axes);
        exchange.cost = topology.allToAll(mask, getBytes(exchange.after));
        exchange.after.rows[dim] = joined;
        moves.push_back(std::move(exchange));
      }
      moves.push_back(std::move(gather));
    }
  }
}

std::vector<Move> ReshardingMoves::from(const HeldTensor &held) {
  current = held;
  moves.clear();
  AxisMask free = movable & ~getUsed(held);
  AxisMask partial = held.partial & movable;
  for (const auto &[axes, mask] : orders) {
    if ((mask & free) == mask)
      addCuts(axes, mask, /*isFree=*/true);
    else if ((mask & partial) == mask)
      addCuts(axes, mask, /*isFree=*/false);
    else if (!(mask & (free | partial)))
      addJoins(axes, mask);
    if (!std::is_sorted(axes.begin(), axes.end()))
      continue;
    if ((mask & partial) == mask) {
      Move reduce{ReshardingStep::AllReduce, axes};
      reduce.after = held;
      reduce.after.partial &= ~mask;
      reduce.after.isMax &= reduce.after.partial != 0;
      reduce.cost = topology.allReduce(mask, getBytes(held));
      moves.push_back(std::move(reduce));
    }
    if ((mask & free) == mask && (!held.partial || held.isMax == wantedMax)) {
      Move keep{ReshardingStep::KeepFirst, axes};
      keep.after = held;
      keep.after.partial |= mask;
      keep.after.isMax = wantedMax;
      // A value is the maximum of copies of it as it is.
      if (!wantedMax)
        keep.cost = topology.local(getBytes(held));
      moves.push_back(std::move(keep));
    }
  }
  return std::move(moves);
}

//===----------------------------------------------------------------------===//
// Permutes
//===----------------------------------------------------------------------===//

uint64_t ReshardingMoves::getContent(const HeldTensor &held,
                                     int64_t device) const {
  // Which summand, if it is one of a sum.
  uint64_t summand = 0;
  for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis)
    if (held.partial & bit(axis))
      summand = summand * topology.getAxisSizes()[axis] +
                topology.getCoordinate(device, axis);
  uint64_t content = llvm::hash_combine(summand, held.isMax);
  for (auto [dim, rows] : llvm::zip(dims, held.rows))
    content =
        llvm::hash_combine(content, dim[rows].hashes[device], dim[rows].rows);
  return content;
}

uint64_t ReshardingMoves::getSignature(const HeldTensor &held) const {
  uint64_t sum = topology.getSize(held.partial);
  for (int64_t device = 0; device < topology.getNumDevices(); ++device)
    sum += llvm::hash_combine(getContent(held, device), 17);
  return sum;
}

std::vector<HeldTensor>
ReshardingMoves::getPermutations(const HeldTensor &held) {
  std::vector<HeldTensor> others;
  if (auto known = layouts.find(getSignature(held)); known != layouts.end())
    llvm::copy_if(known->second, std::back_inserter(others),
                  [&](const HeldTensor &other) { return other != held; });
  return others;
}

std::vector<unsigned>
ReshardingMoves::getGroupAxes(const std::vector<int64_t> &sources,
                              std::vector<int64_t> &inGroup) const {
  AxisMask larger = 0, crossed = 0;
  for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis) {
    larger |= topology.getAxisSizes()[axis] > 1 ? bit(axis) : 0;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device)
      if (topology.getCoordinate(device, axis) !=
          topology.getCoordinate(sources[device], axis))
        crossed |= bit(axis);
  }
  for (AxisMask axes : {crossed, larger}) {
    // The members of each group, in the order of device numbers.
    std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
      std::vector<int64_t> rest;
      for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis)
        if (!(axes & bit(axis)))
          rest.push_back(topology.getCoordinate(device, axis));
      groups[rest].push_back(device);
    }
    bool isSame = true;
    inGroup.clear();
    for (const auto &[rest, members] : groups) {
      std::vector<int64_t> mine;
      for (int64_t member : members)
        mine.push_back(llvm::find(members, sources[member]) - members.begin());
      if (inGroup.empty())
        inGroup = mine;
      isSame &= inGroup == mine;
    }
    if (isSame)
      return listOf(axes);
  }
  return {};
}

Move ReshardingMoves::permute(const HeldTensor &before, const HeldTensor &after,
                              std::vector<int64_t> *inGroup) const {
  int64_t devices = topology.getNumDevices();
  std::map<uint64_t, std::vector<int64_t>> holders;
  for (int64_t device = 0; device < devices; ++device)
    holders[getContent(before, device)].push_back(device);
  auto countCrossed = [&](int64_t a, int64_t b) {
    int64_t count = 0;
    for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis)
      count +=
          topology.getCoordinate(a, axis) != topology.getCoordinate(b, axis);
    return count;
  };
  std::vector<int64_t> sources(devices, -1);
  std::vector<bool> isGiven(devices);
  int levels = int(topology.getCluster().levels.size());
  for (int level = -1; level < levels; ++level)
    for (int64_t device = 0; device < devices; ++device) {
      if (sources[device] >= 0)
        continue;
      // Of the nearest, the one that differs along the fewest axes.
      int64_t best = -1;
      for (int64_t holder : holders[getContent(after, device)])
        if (!isGiven[holder] &&
            topology.getMeetingLevel(device, holder) <= level &&
            (best < 0 ||
             countCrossed(device, holder) < countCrossed(device, best)))
          best = holder;
      if (best < 0)
        continue;
      sources[device] = best;
      isGiven[best] = true;
    }
  Move move{ReshardingStep::Permute, {}};
  move.after = after;
  move.cost = topology.permute(sources, getBytes(before));
  if (inGroup)
    move.axes = getGroupAxes(sources, *inGroup);
  return move;
}
