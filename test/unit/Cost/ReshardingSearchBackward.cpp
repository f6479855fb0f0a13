//===- ReshardingSearchBackward.cpp - From what is wanted, backwards ------===//
//
// What devices have to hold so that one or two ops, no permutes, make a layout
// of it: the rows of each device, and groups whose summands have to add up. So
// all permutes that come before are found without trying each choice of
// sources; whether summands go together is found by executing the ops.
//
//===----------------------------------------------------------------------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace heddle;
using namespace heddle::test;
using llvm::ArrayRef;

/// What a group has to hold before an op; nothing if no op leads there.
bool ReshardingSearch::invertGroup(const Op &op, size_t cutTotal,
                                   ArrayRef<int8_t> members,
                                   const Contents &after, Contents &before) {
  const Content *some = nullptr;
  for (int8_t member : members)
    if (!isNothing(after[member]))
      some = &after[member];
  std::array<uint16_t, 3> common = (some ? *some : after[members[0]]).rows;
  bool joins = op.kind == ReshardingStep::AllGather ||
               op.kind == ReshardingStep::AllToAll;
  bool cuts = op.kind == ReshardingStep::Slice ||
              op.kind == ReshardingStep::ReduceScatter ||
              op.kind == ReshardingStep::AllToAll;
  unsigned cutDim = op.kind == ReshardingStep::AllToAll ? op.split : op.dim;
  for (int8_t member : members)
    for (unsigned dim = 0; dim < shape.size(); ++dim)
      if (!(cuts && dim == cutDim) && !isNothing(after[member]) &&
          after[member].rows[dim] != common[dim])
        return false;
  if (cuts) {
    llvm::SmallVector<uint16_t, 8> parts;
    RowLists::Rows all;
    for (int8_t member : members) {
      parts.push_back(after[member].rows[cutDim]);
      llvm::append_range(all, lists[parts.back()]);
    }
    for (size_t i = cutTotal; i < all.size(); ++i)
      if (all[i] >= 0)
        return false;
    std::optional<uint16_t> joined = lists.join(parts, cutTotal);
    if (!joined)
      return false;
    common[cutDim] = *joined;
  }
  for (size_t i = 0; i < members.size(); ++i) {
    std::array<uint16_t, 3> rows = common;
    if (joins)
      rows[op.dim] = lists.cut(rows[op.dim], int(members.size()), int(i));
    // Of the members of a group that ends with nothing, nothing is asked.
    before[members[i]] = make(rows, 1);
  }
  return true;
}

/// All that one op more in front may begin with; of one local shape only if
/// that is given.
void ReshardingSearch::extendBackward(const Backward &after,
                                      const Sizes *required) {
  unsigned rank = unsigned(shape.size());
  auto sizeOf = [&](unsigned dim) {
    return lists[after.wanted[0].rows[dim]].size();
  };
  auto add = [&](Op op, size_t cutTotal) {
    Sizes sizes = getSizes(after.wanted[0]);
    bool exchanges = op.kind == ReshardingStep::AllToAll;
    if (cutTotal)
      sizes[exchanges ? op.split : op.dim] = cutTotal;
    if (exchanges || op.kind == ReshardingStep::AllGather)
      sizes[op.dim] = llvm::divideCeil(sizes[op.dim], op.order->members);
    if (required && sizes != *required)
      return;
    Backward before = after;
    switch (op.kind) {
    case ReshardingStep::AllReduce:
    case ReshardingStep::ReduceScatter:
      if (after.sum & op.order->mask)
        return;
      before.sum |= op.order->mask;
      break;
    case ReshardingStep::KeepFirst:
      if (isMax || (after.sum & op.order->mask) != op.order->mask)
        return;
      before.sum &= ~op.order->mask;
      break;
    default:
      break;
    }
    for (int device = 0; device < devices; ++device)
      if (op.order->index[device] == 0 &&
          !invertGroup(
              op, cutTotal,
              ArrayRef(op.order->group[device]).take_front(op.order->members),
              after.wanted, before.wanted))
        return;
    before.ops.insert(before.ops.begin(), op);
    HeldState state;
    state.devices = before.wanted;
    Costs costs = getCosts(op, state);
    for (size_t i = 0; i < costs.size(); ++i)
      before.costs[i] += costs[i];
    addBackward(std::move(before));
  };
  for (const Order &order : orders) {
    for (unsigned dim = 0; dim < rank; ++dim) {
      size_t least = (sizeOf(dim) - 1) * order.members + 1;
      for (size_t total = least; total <= sizeOf(dim) * order.members;
           ++total) {
        add({ReshardingStep::Slice, &order, dim}, total);
        add({ReshardingStep::ReduceScatter, &order, dim}, total);
        for (unsigned other = 0; other < rank; ++other)
          if (other != dim)
            add({ReshardingStep::AllToAll, &order, other, dim, sizeOf(other)},
                total);
      }
      add({ReshardingStep::AllGather, &order, dim, 0, sizeOf(dim)}, 0);
    }
    if (order.isSorted) {
      add({ReshardingStep::AllReduce, &order}, 0);
      add({ReshardingStep::KeepFirst, &order}, 0);
    }
  }
}

/// Whether the ops make the layout of what the devices hold.
bool ReshardingSearch::leadsTo(const Backward &backward, HeldState state) {
  for (const Op &op : backward.ops) {
    HeldState after;
    after.allSummands = state.allSummands;
    for (int device = 0; device < devices; ++device) {
      std::optional<Content> content = apply(op, state, device);
      if (!content)
        return false;
      after.devices[device] = *content;
    }
    state = after;
  }
  for (int device = 0; device < devices; ++device)
    if (!fits(state.devices[device], backward.target, device,
              state.allSummands))
      return false;
  return isSum(state, backward.target);
}

void ReshardingSearch::addBackward(Backward backward) {
  if (!backward.sum) {
    HeldState state;
    state.devices = backward.wanted;
    if (!leadsTo(backward, state))
      return;
  }
  // Of ops that begin with the same, the cheapest; the summands' way differs.
  std::string key{char(backward.target), char(backward.sum),
                  char(backward.ops.size())};
  key.append(reinterpret_cast<const char *>(backward.wanted.data()),
             sizeof(backward.wanted));
  if (backward.sum)
    for (const Op &op : backward.ops)
      key += {char(op.kind), char(op.order - orders.data()), char(op.dim),
              char(op.split)};
  auto [known, isNew] = backwardNumbers.try_emplace(key, backwards.size());
  if (!isNew) {
    Costs &least = backwards[known->second].costs;
    for (size_t i = 0; i < least.size(); ++i)
      least[i] = std::min(least[i], backward.costs[i]);
    return;
  }
  backwardsOfShape[getSizes(backward.wanted[0])].push_back(backwards.size());
  backwards.push_back(std::move(backward));
}

/// Those of one op, and of two that begin with a local shape.
void ReshardingSearch::makeBackwards(const Sizes *sizes) {
  if (backwards.empty()) {
    for (unsigned layout = 0; layout < layouts.size(); ++layout) {
      Backward last{
          {}, layouts[layout].partial, {}, Costs(models.size(), 0), layout};
      for (int device = 0; device < devices; ++device)
        last.wanted[device] = make(wanted[layout][device].rows, 1);
      extendBackward(last, nullptr);
    }
    shortBackwards = backwards.size();
  }
  if (!sizes || !extendedShapes.insert(*sizes).second)
    return;
  for (size_t i = 0; i < shortBackwards; ++i)
    extendBackward(Backward(backwards[i]), sizes);
}

ReshardingSearch::Sizes
ReshardingSearch::getSizes(const Content &content) const {
  Sizes sizes = {};
  for (size_t dim = 0; dim < shape.size(); ++dim)
    sizes[dim] = lists[content.rows[dim]].size();
  return sizes;
}

/// All sequences of a permute and as many ops as there may be.
void ReshardingSearch::forEachBackward(
    const HeldState &state, size_t mostOps, const Costs &before,
    const std::vector<Costs> &bounds,
    llvm::function_ref<void(unsigned, const Costs &)> visit) {
  Sizes sizes = getSizes(state.devices[0]);
  makeBackwards(mostOps > 1 ? &sizes : nullptr);
  auto known = backwardsOfShape.find(sizes);
  if (known == backwardsOfShape.end())
    return;
  Costs moved = getLeast(state, true), kept = getLeast(state, false);
  for (size_t number : known->second) {
    const Backward &backward = backwards[number];
    if (backward.ops.size() > mostOps)
      continue;
    auto isWithin = [&](const Costs &least) {
      for (size_t i = 0; i < models.size(); ++i)
        if (before[i] + least[i] + backward.costs[i] <=
            bounds[backward.target][i])
          return true;
      return false;
    };
    if (!isWithin(kept))
      continue;
    bool moves = false, isThere = true;
    for (int device = 0; device < devices && isThere; ++device) {
      const Content &want = backward.wanted[device];
      if (isNothing(want))
        continue;
      auto isFit = [&](const Content &content) {
        return content.rows == want.rows && content.summands &&
               (backward.sum || content.summands == state.allSummands);
      };
      bool stays = isFit(state.devices[device]) || (backward.sum && !isMax);
      moves |= !stays;
      isThere =
          stays ||
          llvm::any_of(ArrayRef(state.devices).take_front(devices), isFit);
    }
    if (!isThere || (moves && !isWithin(moved)))
      continue;
    Costs most = bounds[backward.target];
    for (size_t i = 0; i < models.size(); ++i)
      most[i] -= before[i] + backward.costs[i];
    if (std::optional<Costs> price = permuteTo(state, number, most)) {
      Costs costs = before;
      for (size_t i = 0; i < models.size(); ++i)
        costs[i] += (*price)[i] + backward.costs[i];
      visit(backward.target, costs);
    }
  }
}
