//===- ReshardingMoves.cpp - Single ops on what devices hold --------------===//

#include "ReshardingMoves.h"
#include "llvm/ADT/STLExtras.h"
#include <functional>
#include <limits>

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
                                 TensorLayout base)
    : topology(topology), shape(std::move(shape)), elementBytes(elementBytes),
      movable(movable), base(std::move(base)), summands(topology),
      whole(summands.ofPartial(0)) {
  for (int64_t size : this->shape)
    dims.emplace_back(topology, size);
  commons.resize(this->shape.size());
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

void ReshardingMoves::addGoal(const HeldTensor &held, AxisMask partial) {
  std::vector<PermuteGoal> &equal = goals[getLocalShape(held)];
  if (llvm::none_of(equal, [&](const PermuteGoal &other) {
        return other.rows == held.rows && other.partial == partial;
      }))
    equal.push_back({held.rows, partial});
}

void ReshardingMoves::enumerate(unsigned axis, TensorLayout &layout) {
  if (axis == topology.getAxisSizes().size()) {
    HeldTensor held = hold(layout);
    addGoal(held, layout.partial);
    if (!isSmall())
      return;
    // What a single op makes a layout of, though no layout itself: parts of
    // parts of a size that does not divide, and parts side by side.
    AxisMask free = movable & ~layout.partial & ~getRowAxes(held);
    auto add = [&](const HeldTensor &other) {
      if (!isLayout(other))
        addGoal(other, layout.partial);
    };
    for (const auto &[axes, mask] : orders)
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        if ((mask & free) == mask) {
          HeldTensor part = held;
          part.rows[dim] = dims[dim].cut(held.rows[dim], axes);
          add(part);
        }
        if ((dims[dim][held.rows[dim]].depends & mask) != mask)
          continue;
        for (unsigned joined : dims[dim].join(held.rows[dim], axes)) {
          HeldTensor whole = held;
          whole.rows[dim] = joined;
          add(whole);
          for (size_t other = 0; other < shape.size(); ++other) {
            if (other == dim)
              continue;
            HeldTensor exchanged = whole;
            exchanged.rows[other] = dims[other].cut(held.rows[other], axes);
            add(exchanged);
          }
        }
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
  held.summands = summands.ofPartial(layout.partial);
  held.isMax = held.summands != whole && layout.isMax;
  return held;
}

bool ReshardingMoves::isHeldAs(const HeldTensor &held, const HeldTensor &wanted,
                               const TensorLayout &layout) const {
  if (held.rows != wanted.rows)
    return false;
  if (held.summands == whole)
    // A value is the maximum of copies of it.
    return wanted.summands == whole || layout.isMax;
  return layout.partial && held.isMax == layout.isMax &&
         summands.isPartialOver(held.summands, layout.partial, held.isMax);
}

bool ReshardingMoves::isLayout(const HeldTensor &held) const {
  for (auto [dim, rows] : llvm::zip(dims, held.rows))
    if (!dim[rows].layout)
      return false;
  return true;
}

std::optional<TensorLayout>
ReshardingMoves::getLayout(const HeldTensor &held) const {
  if (!isLayout(held))
    return std::nullopt;
  TensorLayout layout{{}, 0, held.isMax};
  AxisMask used = 0;
  for (auto [dim, rows] : llvm::zip(dims, held.rows)) {
    layout.dims.push_back(*dim[rows].layout);
    for (unsigned axis : layout.dims.back())
      used |= bit(axis);
  }
  if (held.summands == whole)
    return layout;
  // The fewest axes over which the devices hold each summand.
  AxisMask others = ((bit(unsigned(topology.getAxisSizes().size())))-1) & ~used;
  for (unsigned count = 1; count <= unsigned(llvm::popcount(others)); ++count)
    for (AxisMask axes = others; axes; axes = (axes - 1) & others)
      if (unsigned(llvm::popcount(axes)) == count &&
          summands.isPartialOver(held.summands, axes, held.isMax)) {
        layout.partial = axes;
        return layout;
      }
  return std::nullopt;
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

/// Of each device, how many of the rows that it is to hold it has.
const std::vector<int64_t> &
ReshardingMoves::getCommon(size_t dim, unsigned have, unsigned want) {
  auto [known, isNew] = commons[dim].try_emplace(uint64_t(have) << 32 | want);
  if (!isNew)
    return known->second;
  for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
    int64_t both = 0;
    for (const DimensionRows::Run &a : dims[dim][want].held[device])
      for (const DimensionRows::Run &b : dims[dim][have].held[device])
        if (a.first >= 0 && b.first >= 0)
          both += std::max<int64_t>(
              0, std::min(a.first + a.count, b.first + b.count) -
                     std::max(a.first, b.first));
    known->second.push_back(both);
  }
  return known->second;
}

int64_t ReshardingMoves::getLaunch() const {
  return int64_t(topology.getCluster().device.launch * 1e12 * (1 - 1e-9));
}

int64_t ReshardingMoves::getLeastRest(const HeldTensor &held,
                                      const HeldTensor &wanted) {
  // Devices may hold zeros of a partial sum.
  if (wanted.summands != whole)
    return getLaunch();
  std::vector<int64_t> needed(topology.getNumDevices(), 1), common = needed;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const auto &all = getCommon(dim, wanted.rows[dim], wanted.rows[dim]);
    const auto &both = getCommon(dim, held.rows[dim], wanted.rows[dim]);
    for (size_t device = 0; device < needed.size(); ++device) {
      needed[device] *= all[device];
      common[device] *= both[device];
    }
  }
  // Of a sum, something has to come for each row.
  const Summands::State &sum = summands[held.summands];
  for (size_t device = 0; device < needed.size(); ++device)
    if (!sum.hasAll[device])
      common[device] = 0;
  int64_t missing = 0;
  for (size_t device = 0; device < needed.size(); ++device)
    missing = std::max(missing, needed[device] -
                                    std::min(needed[device], common[device]));
  double latency = std::numeric_limits<double>::infinity(), bandwidth = 0;
  for (const ClusterLevel &level : topology.getCluster().levels) {
    latency = std::min(latency, level.latency);
    bandwidth = std::max(bandwidth, level.getUnitBandwidth());
  }
  if (missing == 0 || bandwidth == 0)
    return getLaunch();
  // Less than that, so that rounding adds nothing.
  return getLaunch() +
         int64_t((latency + double(missing * elementBytes) / bandwidth) * 1e12 *
                 (1 - 1e-6));
}

AxisMask ReshardingMoves::getRowAxes(const HeldTensor &held) const {
  AxisMask used = 0;
  for (auto [dim, rows] : llvm::zip(dims, held.rows))
    used |= dim[rows].depends;
  return used;
}

/// Slices of what is held several times, reduce-scatters of what is partial.
void ReshardingMoves::addCuts(const std::vector<unsigned> &axes,
                              AxisMask mask) {
  bool isPartial = summands[current.summands].depends & mask;
  std::optional<unsigned> sum = current.summands;
  if (isPartial)
    sum = summands.reduce(current.summands, mask, current.isMax);
  if (!sum)
    return;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    Move move{isPartial ? ReshardingStep::ReduceScatter : ReshardingStep::Slice,
              axes, unsigned(dim)};
    move.after = current;
    move.after.rows[dim] = dims[dim].cut(current.rows[dim], axes);
    move.after.summands = *sum;
    move.after.isMax &= *sum != whole;
    int64_t bytes = getBytes(move.after);
    move.cost =
        isPartial ? topology.reduceScatter(mask, bytes) : topology.local(bytes);
    moves.push_back(std::move(move));
  }
}

/// All-gathers and all-to-alls of what differs along the axes in one dimension.
void ReshardingMoves::addJoins(const std::vector<unsigned> &axes,
                               AxisMask mask) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    // Members have to hold the same rows of all other dimensions.
    AxisMask others = 0;
    for (size_t other = 0; other < shape.size(); ++other)
      if (other != dim)
        others |= dims[other][current.rows[other]].depends;
    if ((dims[dim][current.rows[dim]].depends & mask) != mask ||
        (others & mask))
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
  AxisMask rowAxes = getRowAxes(held);
  AxisMask partial = summands[held.summands].depends;
  for (const auto &[axes, mask] : orders) {
    bool isFree = !(mask & (rowAxes | partial));
    // Copies have themselves as their maximum.
    bool isPartial =
        !(mask & rowAxes) &&
        (held.isMax ? (mask & partial) != 0 : (mask & partial) == mask);
    if (isFree || isPartial)
      addCuts(axes, mask);
    else if (!(mask & partial))
      addJoins(axes, mask);
    if (!llvm::is_sorted(axes))
      continue;
    if (isPartial)
      if (auto sum = summands.reduce(held.summands, mask, held.isMax)) {
        Move reduce{ReshardingStep::AllReduce, axes};
        reduce.after = held;
        reduce.after.summands = *sum;
        reduce.after.isMax &= *sum != whole;
        reduce.cost = topology.allReduce(mask, getBytes(held));
        moves.push_back(std::move(reduce));
      }
    if (isFree && !held.isMax) {
      Move keep{ReshardingStep::KeepFirst, axes};
      keep.after = held;
      keep.after.summands = summands.keepFirst(held.summands, mask);
      keep.cost = topology.local(getBytes(held));
      moves.push_back(std::move(keep));
    }
  }
  return std::move(moves);
}
