//===- ReshardingSearch.cpp - All short sequences of collectives ----------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace heddle;
using namespace heddle::test;
using llvm::ArrayRef;

size_t HeldStateHash::operator()(const HeldState &state) const {
  return llvm::xxh3_64bits(
      ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(state.devices.data()),
                        sizeof(state.devices)));
}

//===----------------------------------------------------------------------===//
// RowLists
//===----------------------------------------------------------------------===//

uint16_t RowLists::intern(const Rows &rows) {
  auto [known, isNew] = numbers.try_emplace(rows, uint16_t(lists.size()));
  if (isNew) {
    Info info{true, 0, {}};
    info.cuts.fill(-1);
    for (int8_t row : rows)
      if (row >= 0) {
        info.isPadding = false;
        info.bits |= 1u << row;
      }
    lists.push_back(rows);
    infos.push_back(info);
  }
  return known->second;
}

uint16_t RowLists::cut(uint16_t list, int members, int member) {
  int known = infos[list].cuts[members * 8 + member];
  if (known >= 0)
    return uint16_t(known);
  const Rows &rows = lists[list];
  size_t size = llvm::divideCeil(rows.size(), members);
  Rows part;
  for (size_t i = member * size; i < (member + 1) * size; ++i)
    part.push_back(i < rows.size() ? rows[i] : -1);
  uint16_t result = intern(part);
  infos[list].cuts[members * 8 + member] = result;
  return result;
}

std::optional<uint16_t> RowLists::join(ArrayRef<uint16_t> parts, size_t total) {
  std::string key(reinterpret_cast<const char *>(parts.data()),
                  parts.size() * sizeof(uint16_t));
  key.push_back(char(total));
  auto [known, isNew] = joins.try_emplace(key, -1);
  if (isNew) {
    Rows rows;
    for (uint16_t part : parts)
      llvm::append_range(rows, lists[part]);
    rows.resize(total);
    uint32_t seen = 0;
    bool isUseful = true;
    for (int8_t row : rows)
      if (row >= 0) {
        isUseful &= !(seen >> row & 1);
        seen |= 1u << row;
      }
    if (isUseful)
      known->second = intern(rows);
  }
  if (known->second < 0)
    return std::nullopt;
  return uint16_t(known->second);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

ReshardingSearch::ReshardingSearch(std::vector<int64_t> meshSizes,
                                   std::vector<int64_t> shapeSizes,
                                   std::vector<CostModel> costModels,
                                   bool isMax)
    : mesh(std::move(meshSizes)), shape(std::move(shapeSizes)),
      models(std::move(costModels)), isMax(isMax) {
  for (int64_t size : mesh)
    devices *= int(size);
  for (const CostModel &model : models)
    launch.push_back(
        std::llround(model.topology.getCluster().device.launch * 1e12));
  addOrders({});
  TensorLayout none;
  none.dims.resize(shape.size());
  addLayouts(0, none);
  for (const TensorLayout &layout : layouts) {
    HeldState state = hold(layout);
    wanted.emplace_back(state.devices.begin(), state.devices.begin() + devices);
    starts.push_back(intern(state));
  }
}

void ReshardingSearch::addLayouts(unsigned axis, TensorLayout layout) {
  if (axis == mesh.size()) {
    layout.isMax = isMax && layout.partial;
    layouts.push_back(layout);
    return;
  }
  addLayouts(axis + 1, layout);
  TensorLayout partial = layout;
  partial.partial |= AxisMask(1) << axis;
  addLayouts(axis + 1, partial);
  for (size_t dim = 0; dim < shape.size(); ++dim)
    for (size_t place = 0; place <= layout.dims[dim].size(); ++place) {
      TensorLayout more = layout;
      more.dims[dim].insert(more.dims[dim].begin() + place, axis);
      addLayouts(axis + 1, more);
    }
}

static int coordinateOf(ArrayRef<int64_t> mesh, int device, unsigned axis) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < mesh.size(); ++i)
    stride *= mesh[i];
  return int(device / stride % mesh[axis]);
}

static int indexOver(ArrayRef<int64_t> mesh, int device,
                     ArrayRef<unsigned> axes) {
  int index = 0;
  for (unsigned axis : axes)
    index = index * int(mesh[axis]) + coordinateOf(mesh, device, axis);
  return index;
}

void ReshardingSearch::addOrders(std::vector<unsigned> axes) {
  if (!axes.empty()) {
    Order order;
    for (unsigned axis : axes) {
      order.mask |= AxisMask(1) << axis;
      order.members *= int(mesh[axis]);
    }
    order.isSorted = llvm::is_sorted(axes);
    for (int device = 0; device < devices; ++device) {
      order.index[device] = int8_t(indexOver(mesh, device, axes));
      for (int other = 0; other < devices; ++other) {
        bool isMember = true;
        for (unsigned axis = 0; axis < mesh.size(); ++axis)
          isMember &= llvm::is_contained(axes, axis) ||
                      coordinateOf(mesh, device, axis) ==
                          coordinateOf(mesh, other, axis);
        if (isMember)
          order.group[device][indexOver(mesh, other, axes)] = int8_t(other);
      }
    }
    orders.push_back(order);
  }
  for (unsigned axis = 0; axis < mesh.size(); ++axis)
    if (!llvm::is_contained(axes, axis)) {
      axes.push_back(axis);
      addOrders(axes);
      axes.pop_back();
    }
}

static std::vector<unsigned> listOf(AxisMask mask) {
  std::vector<unsigned> axes;
  for (unsigned axis = 0; axis < 32; ++axis)
    if (mask >> axis & 1)
      axes.push_back(axis);
  return axes;
}

HeldState ReshardingSearch::hold(const TensorLayout &layout) {
  HeldState state;
  std::vector<unsigned> partial = listOf(layout.partial);
  int summands = 1;
  for (unsigned axis : partial)
    summands *= int(mesh[axis]);
  state.allSummands = uint8_t((1 << summands) - 1);
  for (int device = 0; device < devices; ++device) {
    std::array<uint16_t, 3> rows = {};
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      int64_t parts = 1;
      for (unsigned axis : layout.dims[dim])
        parts *= mesh[axis];
      int64_t size = llvm::divideCeil(shape[dim], parts);
      int64_t first = size * indexOver(mesh, device, layout.dims[dim]);
      RowLists::Rows held;
      for (int64_t row = first; row < first + size; ++row)
        held.push_back(row < shape[dim] ? int8_t(row) : -1);
      rows[dim] = lists.intern(held);
    }
    state.devices[device] =
        make(rows, uint8_t(1 << indexOver(mesh, device, partial)));
  }
  return state;
}

unsigned ReshardingSearch::intern(const HeldState &state) {
  auto [known, isNew] = numbers.try_emplace(state, unsigned(states.size()));
  if (isNew)
    states.push_back(state);
  return known->second;
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

/// Zeros have no rows, and what has no rows in one dimension has none in any.
Content ReshardingSearch::make(std::array<uint16_t, 3> rows, uint8_t summands) {
  bool isEmpty = summands == 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    isEmpty |= lists.isPadding(rows[dim]);
  if (!isEmpty)
    return {rows, summands};
  for (size_t dim = 0; dim < shape.size(); ++dim)
    rows[dim] = lists.getPadding(lists[rows[dim]].size());
  return {rows, uint8_t(summands == 0 ? 0 : 0xff)};
}

bool ReshardingSearch::isNothing(const Content &content) const {
  return content.summands && !shape.empty() && lists.isPadding(content.rows[0]);
}

int64_t ReshardingSearch::getBytes(const Content &content) const {
  int64_t bytes = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    bytes *= int64_t(lists[content.rows[dim]].size());
  return bytes;
}

/// Whether every summand of every element is somewhere.
bool ReshardingSearch::isComplete(const HeldState &state) const {
  int64_t volume = 0, whole = llvm::popcount(state.allSummands);
  for (int64_t size : shape)
    whole *= size;
  struct Box {
    std::array<uint32_t, 3> bits;
    uint8_t summands;
  };
  llvm::SmallVector<Box, 8> boxes;
  for (int device = 0; device < devices; ++device) {
    const Content &content = state.devices[device];
    if (content.summands == 0 || isNothing(content))
      continue;
    Box box{{1, 1, 1}, content.summands};
    for (size_t dim = 0; dim < shape.size(); ++dim)
      box.bits[dim] = lists.getBits(content.rows[dim]);
    if (llvm::any_of(boxes, [&](const Box &other) {
          return other.bits == box.bits && other.summands == box.summands;
        }))
      continue;
    int64_t count = llvm::popcount(box.summands);
    for (uint32_t bits : box.bits)
      count *= llvm::popcount(bits);
    volume += count;
    boxes.push_back(box);
  }
  if (volume < whole)
    return false;
  auto sizeOf = [&](size_t dim) {
    return dim < shape.size() ? shape[dim] : int64_t(1);
  };
  uint32_t all = uint32_t((uint64_t(1) << sizeOf(2)) - 1);
  for (int summand = 0; state.allSummands >> summand & 1; ++summand)
    for (int64_t i = 0; i < sizeOf(0); ++i)
      for (int64_t j = 0; j < sizeOf(1); ++j) {
        uint32_t found = 0;
        for (const Box &box : boxes)
          if ((box.summands >> summand & 1) && (box.bits[0] >> i & 1) &&
              (box.bits[1] >> j & 1))
            found |= box.bits[2];
        if (found != all)
          return false;
      }
  return true;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

std::vector<ReshardingSearch::Op>
ReshardingSearch::getOps(const HeldState &state) const {
  std::vector<Op> ops;
  unsigned rank = unsigned(shape.size());
  for (const Order &order : orders) {
    for (unsigned dim = 0; dim < rank; ++dim) {
      ops.push_back({ReshardingStep::Slice, &order, dim});
      ops.push_back({ReshardingStep::ReduceScatter, &order, dim});
      size_t part = lists[state.devices[0].rows[dim]].size();
      for (size_t total = (part - 1) * order.members + 1;
           total <= part * order.members; ++total) {
        ops.push_back({ReshardingStep::AllGather, &order, dim, 0, total});
        for (unsigned split = 0; split < rank; ++split)
          if (split != dim)
            ops.push_back(
                {ReshardingStep::AllToAll, &order, dim, split, total});
      }
    }
    if (order.isSorted) {
      ops.push_back({ReshardingStep::AllReduce, &order});
      ops.push_back({ReshardingStep::KeepFirst, &order});
    }
  }
  return ops;
}

/// What a device holds after an op; nothing if that is of no use.
std::optional<Content>
ReshardingSearch::apply(const Op &op, const HeldState &state, int device) {
  const Content &mine = state.devices[device];
  // What members have alike is replicated.
  if (op.kind == ReshardingStep::Slice || op.kind == ReshardingStep::KeepFirst)
    for (int i = 0; i < op.order->members; ++i)
      if (state.devices[op.order->group[device][i]] != mine)
        return std::nullopt;
  switch (op.kind) {
  case ReshardingStep::Slice: {
    std::array<uint16_t, 3> rows = mine.rows;
    rows[op.dim] =
        lists.cut(rows[op.dim], op.order->members, op.order->index[device]);
    return make(rows, mine.summands);
  }
  case ReshardingStep::KeepFirst:
    // A value is the maximum of copies of it.
    return isMax || op.order->index[device] == 0 ? mine : make(mine.rows, 0);
  case ReshardingStep::AllGather:
  case ReshardingStep::AllToAll:
    return join(op, state, device);
  case ReshardingStep::AllReduce:
  case ReshardingStep::ReduceScatter:
    return reduce(op, state, device);
  case ReshardingStep::Permute:
    break;
  }
  return std::nullopt;
}

std::optional<Content>
ReshardingSearch::join(const Op &op, const HeldState &state, int device) {
  llvm::SmallVector<uint16_t, 8> parts;
  std::optional<Content> common;
  bool hasZeros = false;
  std::array<uint16_t, 3> rows = {};
  for (int i = 0; i < op.order->members; ++i) {
    Content block = state.devices[op.order->group[device][i]];
    if (op.kind == ReshardingStep::AllToAll) {
      block.rows[op.split] = lists.cut(block.rows[op.split], op.order->members,
                                       op.order->index[device]);
      block = make(block.rows, block.summands);
    }
    parts.push_back(block.rows[op.dim]);
    rows = block.rows;
    if (block.summands == 0) {
      hasZeros = true;
    } else if (!isNothing(block)) {
      if (common && common->summands != block.summands)
        return std::nullopt;
      for (size_t dim = 0; dim < shape.size(); ++dim)
        if (dim != op.dim && common && common->rows[dim] != block.rows[dim])
          return std::nullopt;
      common = block;
    }
  }
  if (!common) {
    rows[op.dim] = lists.getPadding(op.total);
    bool isZero = llvm::all_of(
        ArrayRef(op.order->group[device]).take_front(op.order->members),
        [&](int8_t member) { return state.devices[member].summands == 0; });
    return make(rows, isZero ? 0 : 0xff);
  }
  if (hasZeros)
    return std::nullopt; // zeros where rows belong
  std::optional<uint16_t> joined = lists.join(parts, op.total);
  if (!joined)
    return std::nullopt;
  rows = common->rows;
  rows[op.dim] = *joined;
  return make(rows, common->summands);
}

std::optional<Content>
ReshardingSearch::reduce(const Op &op, const HeldState &state, int device) {
  std::optional<Content> sum;
  for (int i = 0; i < op.order->members; ++i) {
    const Content &part = state.devices[op.order->group[device][i]];
    if (part.summands == 0)
      continue;
    if (sum && (sum->rows != part.rows || (!isMax && !isNothing(part) &&
                                           (sum->summands & part.summands))))
      return std::nullopt;
    sum = {part.rows, uint8_t(part.summands | (sum ? sum->summands : 0))};
  }
  if (!sum)
    sum = state.devices[device];
  if (op.kind == ReshardingStep::ReduceScatter)
    sum->rows[op.dim] = lists.cut(sum->rows[op.dim], op.order->members,
                                  op.order->index[device]);
  return make(sum->rows, sum->summands);
}

const Costs &ReshardingSearch::getCosts(const Op &op, const HeldState &state) {
  Content block = state.devices[0];
  auto cut = [&](unsigned dim) {
    block.rows[dim] = lists.cut(block.rows[dim], op.order->members, 0);
  };
  if (op.kind == ReshardingStep::Slice ||
      op.kind == ReshardingStep::ReduceScatter)
    cut(op.dim);
  if (op.kind == ReshardingStep::AllToAll)
    cut(op.split);
  int64_t count = getBytes(block);
  std::string key = {char(op.kind), char(op.order->mask), char(count & 127),
                     char(count >> 7)};
  auto [known, isNew] = opCosts.try_emplace(key);
  if (!isNew)
    return known->second;
  for (const CostModel &model : models) {
    int64_t bytes = count * model.elementBytes;
    CollectiveCost cost;
    switch (op.kind) {
    case ReshardingStep::Slice:
      cost = model.topology.local(bytes);
      break;
    case ReshardingStep::KeepFirst:
      if (!isMax)
        cost = model.topology.local(bytes);
      break;
    case ReshardingStep::AllGather:
      cost = model.topology.allGather(op.order->mask, bytes);
      break;
    case ReshardingStep::AllToAll:
      cost = model.topology.allToAll(op.order->mask, bytes);
      break;
    case ReshardingStep::AllReduce:
      cost = model.topology.allReduce(op.order->mask, bytes);
      break;
    case ReshardingStep::ReduceScatter:
      cost = model.topology.reduceScatter(op.order->mask, bytes);
      break;
    case ReshardingStep::Permute:
      break;
    }
    known->second.push_back(std::llround(cost.seconds * 1e12));
  }
  return known->second;
}
