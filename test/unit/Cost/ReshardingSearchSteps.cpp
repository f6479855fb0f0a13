//===- ReshardingSearchSteps.cpp - Single steps, and sequences ------------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::test;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Whether a device may hold that, but for which summands it is.
bool ReshardingSearch::fits(const Content &content, size_t layout, int device,
                            uint8_t allSummands) const {
  const Content &want = wanted[layout][device];
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (lists[content.rows[dim]].size() != lists[want.rows[dim]].size())
      return false;
  if (isNothing(want))
    return content.summands == 0 || isNothing(content);
  bool isPartial = layouts[layout].partial;
  if (content.summands == 0)
    return isPartial && !isMax;
  return content.rows == want.rows &&
         (isPartial || content.summands == allSummands);
}

/// Whether each summand is there once in each group over the partial axes.
bool ReshardingSearch::isSum(const HeldState &state, size_t layout) const {
  AxisMask partial = layouts[layout].partial;
  if (!partial)
    return true;
  for (const Order &order : orders) {
    if (order.mask != partial)
      continue;
    for (int device = 0; device < devices; ++device) {
      if (isNothing(wanted[layout][device]))
        continue;
      uint8_t sum = 0;
      for (int i = 0; i < order.members; ++i) {
        uint8_t part = state.devices[order.group[device][i]].summands;
        if (!isMax && (sum & part))
          return false;
        sum |= part;
      }
      if (sum != state.allSummands)
        return false;
    }
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// One step
//===----------------------------------------------------------------------===//

/// All states after one op that is no permute.
const std::vector<ReshardingSearch::Hit> &
ReshardingSearch::getNext(unsigned number) {
  auto [known, isNew] = nexts.try_emplace(number);
  if (!isNew)
    return known->second;
  HeldState state = states[number];
  std::vector<Hit> next;
  std::unordered_map<unsigned, size_t> places;
  for (const Op &op : getOps(state)) {
    HeldState after;
    after.allSummands = state.allSummands;
    bool isUseful = true;
    for (int device = 0; device < devices && isUseful; ++device) {
      std::optional<Content> content = apply(op, state, device);
      isUseful = content.has_value();
      if (content)
        after.devices[device] = *content;
    }
    if (!isUseful || after == state || !isComplete(after))
      continue;
    const Costs &costs = getCosts(op, state);
    auto [place, isFirst] = places.try_emplace(intern(after), next.size());
    if (isFirst) {
      next.push_back({place->first, costs});
      continue;
    }
    Costs &least = next[place->second].costs;
    for (size_t i = 0; i < costs.size(); ++i)
      least[i] = std::min(least[i], costs[i]);
  }
  return nexts[number] = std::move(next);
}

/// All layouts after one op that is no permute.
std::vector<ReshardingSearch::Hit>
ReshardingSearch::findHits(const HeldState &state) {
  std::vector<Hit> found;
  std::vector<unsigned> candidates;
  for (const Op &op : getOps(state)) {
    HeldState after;
    after.allSummands = state.allSummands;
    for (int device = 0; device < devices; ++device) {
      std::optional<Content> content = apply(op, state, device);
      if (!content) {
        candidates.clear();
        break;
      }
      after.devices[device] = *content;
      auto isWanted = [&](unsigned layout) {
        return fits(*content, layout, device, state.allSummands);
      };
      if (device == 0) {
        candidates.clear();
        for (unsigned layout = 0; layout < layouts.size(); ++layout)
          if (isWanted(layout))
            candidates.push_back(layout);
      } else {
        llvm::erase_if(candidates,
                       [&](unsigned layout) { return !isWanted(layout); });
      }
      if (candidates.empty())
        break;
    }
    for (unsigned layout : candidates)
      if (isSum(after, layout))
        found.push_back({layout, getCosts(op, state)});
  }
  return found;
}

const std::vector<ReshardingSearch::Hit> &
ReshardingSearch::getHits(unsigned number) {
  auto [known, isNew] = hits.try_emplace(number);
  if (isNew)
    known->second = findHits(HeldState(states[number]));
  return known->second;
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

std::vector<Costs> ReshardingSearch::find(size_t from,
                                          const std::vector<Costs> &bounds) {
  const int64_t none = int64_t(1) << 60;
  size_t numModels = models.size();
  std::vector<Costs> best(layouts.size(), Costs(numModels, none));
  Costs limit(numModels, 0); // more is of no interest
  for (const Costs &bound : bounds)
    for (size_t i = 0; i < numModels; ++i)
      limit[i] = std::max(limit[i], bound[i]);
  auto sum = [&](const Costs &a, const Costs &b) {
    Costs costs = a;
    for (size_t i = 0; i < numModels; ++i)
      costs[i] += b[i];
    return costs;
  };
  auto isWithin = [&](const Costs &costs, const Costs &limit) {
    for (size_t i = 0; i < numModels; ++i)
      if (costs[i] <= limit[i])
        return true;
    return false;
  };
  // On more devices there are too many states after a permute.
  bool backwardOnly = devices > 6;
  auto relax = [&](unsigned layout, const Costs &costs) {
    for (size_t i = 0; i < numModels; ++i)
      best[layout][i] = std::min(best[layout][i], costs[i]);
  };
  auto isMoved = [&](const HeldState &from, const HeldState &to) {
    for (int device = 0; device < devices; ++device)
      if (to.devices[device].summands && !isNothing(to.devices[device]) &&
          to.devices[device] != from.devices[device])
        return true;
    return false;
  };
  // An op, and what came before it.
  auto finish = [&](unsigned state, const Costs &before, bool permutes) {
    if (!isWithin(sum(before, launch), limit))
      return;
    for (const Hit &hit : getHits(state))
      relax(hit.target, sum(before, hit.costs));
    if (!permutes)
      return;
    for (const Hit &hit : getPermutes(state))
      if (isWithin(sum(before, hit.costs), bounds[hit.target]))
        if (auto price = permute(HeldState(states[state]), nullptr, hit.target))
          relax(hit.target, sum(before, *price));
  };
  // A permute and an op.
  auto finishPermuted = [&](unsigned number, const Costs &before) {
    Costs least = sum(before, launch);
    if (!isWithin(sum(least, launch), limit))
      return;
    HeldState state = states[number];
    if (backwardOnly) {
      forEachBackward(state, 1, before, bounds, relax);
      return;
    }
    for (const Exchanged &exchange : getExchanged(state)) {
      std::optional<Costs> price;
      Costs lowest =
          sum(before, getLeast(state, isMoved(state, exchange.state)));
      for (const Hit &hit : exchange.hits) {
        if (!isWithin(sum(lowest, hit.costs), bounds[hit.target]))
          continue;
        if (!price)
          price = permute(state, &exchange.state, 0);
        relax(hit.target, sum(sum(before, *price), hit.costs));
      }
    }
  };
  unsigned start = starts[from];
  Costs nothing(numModels, 0);
  for (unsigned layout = 0; layout < layouts.size(); ++layout) {
    HeldState state = states[start];
    bool fitsAll = isSum(state, layout);
    for (int device = 0; device < devices; ++device)
      fitsAll &= fits(state.devices[device], layout, device, state.allSummands);
    if (fitsAll)
      relax(layout, nothing);
  }
  finish(start, nothing, true);
  finishPermuted(start, nothing);
  forEachRelay(start, nothing, Rest::Op, bounds, relax);
  for (const Hit &first : getNext(start)) {
    finish(first.target, first.costs, true);
    finishPermuted(first.target, first.costs);
    forEachRelay(first.target, first.costs, Rest::None, bounds, relax);
    if (isWithin(sum(first.costs, sum(launch, launch)), limit))
      for (const Hit &second : getNext(first.target))
        finish(second.target, sum(first.costs, second.costs), true);
  }
  // A permute, then two ops, of which the last may be a permute, too.
  Costs three = sum(sum(launch, launch), launch);
  if (!isWithin(three, limit))
    return best;
  forEachRelay(start, nothing, Rest::Permute, bounds, relax);
  HeldState state = states[start];
  if (backwardOnly) {
    forEachBackward(state, 2, nothing, bounds, relax);
    forEachBridge(start, bounds, relax);
    return best;
  }
  forEachPermuted(state, [&](const HeldState &permuted) {
    Costs lowest = getLeast(state, isMoved(state, permuted));
    if (!isWithin(sum(lowest, sum(launch, launch)), limit))
      return;
    std::optional<Costs> price;
    auto getPrice = [&] {
      if (!price)
        price = permute(state, &permuted, 0);
      return *price;
    };
    for (const Hit &second : getPermutes(intern(permuted)))
      if (isWithin(sum(lowest, second.costs), bounds[second.target]))
        if (auto last = permute(permuted, nullptr, second.target))
          relax(second.target, sum(getPrice(), *last));
    for (const Hit &second : getNext(intern(permuted))) {
      Costs two = sum(lowest, second.costs);
      if (!isWithin(sum(two, launch), limit))
        continue;
      for (const Hit &third : getHits(second.target))
        if (isWithin(sum(two, third.costs), bounds[third.target]))
          relax(third.target, sum(getPrice(), sum(second.costs, third.costs)));
      for (const Hit &third : getPermutes(second.target))
        if (isWithin(sum(two, third.costs), bounds[third.target]))
          if (auto last = permute(HeldState(states[second.target]), nullptr,
                                  third.target))
            relax(third.target, sum(getPrice(), sum(second.costs, *last)));
    }
  });
  return best;
}
