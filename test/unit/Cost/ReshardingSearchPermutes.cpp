//===- ReshardingSearchPermutes.cpp - Who receives from whom --------------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cmath>
#include <functional>

using namespace heddle;
using namespace heddle::test;
using llvm::ArrayRef;

/// Picoseconds of what is above a limit.
static constexpr int64_t tooMuch = int64_t(1) << 59;

namespace heddle::test {

/// The cheapest choice of a source for each device, by branch and bound.
class SourceSearch {
public:
  SourceSearch(const MeshTopology &topology, int64_t bytes, int devices)
      : topology(topology), bytes(bytes), devices(devices), sources(devices),
        out(topology.getCluster().levels.size()), in(out) {}

  /// Of each device, the bits of those that it may receive from; bit 8: none.
  std::array<uint16_t, 8> candidates = {};
  /// Called with all sources chosen for the devices up to one.
  std::function<bool(ArrayRef<int64_t>, int)> isAllowed;
  bool selfIsBest = true;

  /// Looks for those that take less seconds only.
  void setLimit(double seconds) { best = seconds; }

  /// Seconds of the best; infinity if there is none.
  double find() {
    // Each device receives at best as if it were alone.
    for (int device = 0; device < devices; ++device) {
      double nearest = std::numeric_limits<double>::infinity();
      for (int source = 0; source <= 8; ++source)
        if (candidates[device] >> source & 1)
          nearest = std::min(nearest, secondsOf(add({}, device, source)));
      lowest = std::max(lowest, nearest);
    }
    visit(0, {});
    if (bestSources.empty())
      return std::numeric_limits<double>::infinity();
    return topology.permute(bestSources, bytes).seconds;
  }

private:
  struct Load {
    double latency = 0, secondsPerByte = 0;
    bool isLocal = false;
  };

  double secondsOf(Load load) const {
    const ClusterDevice &device = topology.getCluster().device;
    double local =
        load.isLocal ? 2 * double(bytes) / device.memoryBandwidth : 0;
    return device.launch +
           std::max(local, load.latency + double(bytes) * load.secondsPerByte);
  }

  Load add(Load load, int device, int source) const {
    if (source == 8 || source == device) {
      load.isLocal = true;
      return load;
    }
    int level = topology.getMeetingLevel(source, device);
    int64_t unit = topology.getUnitSize(level);
    const ClusterLevel &link = topology.getCluster().levels[level];
    int most =
        1 + std::max(out[level][source / unit], in[level][device / unit]);
    load.latency = std::max(load.latency, link.latency);
    load.secondsPerByte =
        std::max(load.secondsPerByte, double(most) / link.getUnitBandwidth());
    return load;
  }

  void count(int device, int source, int by) {
    if (source == 8 || source == device)
      return;
    int level = topology.getMeetingLevel(source, device);
    int64_t unit = topology.getUnitSize(level);
    out[level][source / unit] += by;
    in[level][device / unit] += by;
  }

  void visit(int device, Load load) {
    // Eight devices have too many choices of summands to try all.
    if (secondsOf(load) >= best || ++visited > 20000)
      return;
    if (device == devices) {
      best = secondsOf(load);
      bestSources = sources;
      return;
    }
    for (int choice = -1; choice <= 8; ++choice) {
      int source = choice < 0 ? device : choice;
      if (best <= lowest || (choice == device) ||
          !(candidates[device] >> source & 1))
        continue;
      sources[device] = source == 8 ? -1 : source;
      if (!isAllowed || isAllowed(sources, device)) {
        Load next = add(load, device, source);
        count(device, source, 1);
        visit(device + 1, next);
        count(device, source, -1);
      }
      if (selfIsBest && choice < 0)
        return;
    }
  }

  const MeshTopology &topology;
  int64_t bytes;
  int devices;
  std::vector<int64_t> sources, bestSources;
  std::vector<std::array<int, 8>> out, in; ///< messages by level and unit
  double best = std::numeric_limits<double>::infinity(), lowest = 0;
  int visited = 0;
};

} // namespace heddle::test

/// The summands that groups of devices need; of those that are to have nothing,
/// none.
std::array<uint8_t, 8> ReshardingSearch::getNeeded(ArrayRef<Content> contents,
                                                   uint8_t allSummands) const {
  std::array<uint8_t, 8> needed = {};
  for (int device = 0; device < devices; ++device)
    needed[device] = isNothing(contents[device]) ? 0 : allSummands;
  return needed;
}

/// Whether, when the last of the sources chosen so far is added, no summand is
/// there twice in its group over the partial axes, and the members yet to come
/// can have those that are missing.
bool ReshardingSearch::addsUp(AxisMask partial,
                              const std::array<uint8_t, 8> &needed,
                              const HeldState &from, ArrayRef<int64_t> sources,
                              int last) const {
  if (!needed[last])
    return true;
  auto summandsOf = [&](int device) {
    return sources[device] < 0 ? uint8_t(0)
                               : from.devices[sources[device]].summands;
  };
  auto groups = llvm::find_if(
      orders, [&](const Order &order) { return order.mask == partial; });
  uint8_t all = summandsOf(last);
  int rest = 0, most = 0;
  for (int device = 0; device < devices; ++device)
    if (!isNothing(from.devices[device]))
      most = std::max(most, llvm::popcount(from.devices[device].summands));
  for (int i = 0; i < groups->members; ++i) {
    int other = groups->group[last][i];
    rest += other > last;
    if (other >= last)
      continue;
    if (!isMax && (all & summandsOf(other)))
      return false;
    all |= summandsOf(other);
  }
  return !(all & ~needed[last]) &&
         llvm::popcount(uint8_t(needed[last] & ~all)) <= rest * most;
}

std::optional<int64_t>
ReshardingSearch::bringSummands(const HeldState &from,
                                const Contents &wantedRows,
                                const std::array<uint8_t, 8> &needed,
                                AxisMask partial, size_t model, int64_t most) {
  const MeshTopology &topology = models[model].topology;
  SourceSearch search(topology,
                      getBytes(from.devices[0]) * models[model].elementBytes,
                      devices);
  for (int device = 0; device < devices; ++device) {
    search.candidates[device] = 1 << 8;
    for (int source = 0; source < devices && needed[device]; ++source)
      if (const Content &content = from.devices[source];
          content.rows == wantedRows[device].rows && content.summands &&
          !(content.summands & ~needed[device]))
        search.candidates[device] |= 1 << source;
  }
  search.selfIsBest = false;
  search.isAllowed = [&](ArrayRef<int64_t> sources, int last) {
    return addsUp(partial, needed, from, sources, last);
  };
  search.setLimit(double(most + 1) * 1e-12);
  double seconds = search.find();
  if (std::isinf(seconds))
    return std::nullopt;
  return std::llround(seconds * 1e12);
}

/// Of a key, what devices may receive from which, and how much.
static std::string makeKey(const std::array<uint16_t, 8> &candidates,
                           int64_t count) {
  std::string key(reinterpret_cast<const char *>(candidates.data()),
                  sizeof(candidates));
  return key += {char(count & 127), char(count >> 7)};
}

std::optional<Costs> ReshardingSearch::permute(const HeldState &from,
                                               const HeldState *to,
                                               size_t layout,
                                               const Costs *most) {
  AxisMask partial = to ? 0 : layouts[layout].partial;
  std::array<uint16_t, 8> candidates = {};
  const Content zero = make(from.devices[0].rows, 0);
  for (int device = 0; device < devices; ++device) {
    auto isFit = [&](const Content &content) {
      if (!to)
        return fits(content, layout, device, from.allSummands);
      const Content &want = to->devices[device];
      return isNothing(want) ? content.summands == 0 || isNothing(content)
                             : content == want;
    };
    for (int source = 0; source < devices; ++source)
      if (isFit(from.devices[source]))
        candidates[device] |= 1 << source;
    if (isFit(zero))
      candidates[device] |= 1 << 8;
    if (!candidates[device])
      return std::nullopt;
  }
  int64_t count = getBytes(from.devices[0]);
  std::string key = makeKey(candidates, count);
  if (partial) {
    key += {char(partial), char(from.allSummands)};
    for (int device = 0; device < devices; ++device)
      key += {char(isNothing(wanted[layout][device])),
              char(from.devices[device].summands)};
  }
  if (auto known = permuteCosts.find(key); known != permuteCosts.end())
    return known->second;
  // Without a sum, what is found soon is kept.
  most = partial ? most : nullptr;
  Costs costs;
  for (const CostModel &model : models) {
    SourceSearch search(model.topology, count * model.elementBytes, devices);
    search.candidates = candidates;
    if (partial) {
      search.selfIsBest = false;
      search.isAllowed = [&,
                          needed = getNeeded(wanted[layout], from.allSummands)](
                             ArrayRef<int64_t> sources, int last) {
        return addsUp(partial, needed, from, sources, last);
      };
    }
    if (most)
      search.setLimit(double((*most)[costs.size()] + 1) * 1e-12);
    double seconds = search.find();
    if (!most && std::isinf(seconds))
      return permuteCosts[key] = std::nullopt;
    costs.push_back(std::isinf(seconds) ? tooMuch
                                        : std::llround(seconds * 1e12));
  }
  if (most)
    return costs;
  return permuteCosts[key] = costs;
}

std::optional<Costs> ReshardingSearch::permuteTo(const HeldState &from,
                                                 size_t number,
                                                 const Costs &most) {
  const Backward &backward = backwards[number];
  std::array<uint16_t, 8> candidates = {};
  for (int device = 0; device < devices; ++device) {
    const Content &want = backward.wanted[device];
    for (int source = 0; source < devices; ++source) {
      const Content &content = from.devices[source];
      if (isNothing(want)
              ? content.summands == 0 || isNothing(content)
              : content.rows == want.rows && content.summands &&
                    (backward.sum || content.summands == from.allSummands))
        candidates[device] |= 1 << source;
    }
    if (isNothing(want) || (backward.sum && !isMax))
      candidates[device] |= 1 << 8;
    if (!candidates[device])
      return std::nullopt;
  }
  int64_t count = getBytes(from.devices[0]);
  std::string key = makeKey(candidates, count);
  if (!backward.sum)
    if (auto known = permuteCosts.find(key); known != permuteCosts.end())
      return known->second;
  const Content zero = make(from.devices[0].rows, 0);
  Costs costs;
  for (const CostModel &model : models) {
    SourceSearch search(model.topology, count * model.elementBytes, devices);
    search.candidates = candidates;
    if (backward.sum) {
      search.selfIsBest = false;
      search.isAllowed = [&, needed =
                                 getNeeded(backward.wanted, from.allSummands)](
                             ArrayRef<int64_t> sources, int last) {
        if (!addsUp(backward.sum, needed, from, sources, last))
          return false;
        if (last < devices - 1)
          return true;
        HeldState state;
        state.allSummands = from.allSummands;
        for (int device = 0; device < devices; ++device)
          state.devices[device] =
              sources[device] < 0 ? zero : from.devices[sources[device]];
        return leadsTo(backward, state);
      };
    }
    if (backward.sum)
      search.setLimit(double(most[costs.size()] + 1) * 1e-12);
    double seconds = search.find();
    if (!backward.sum && std::isinf(seconds))
      return std::nullopt;
    costs.push_back(std::isinf(seconds) ? tooMuch
                                        : std::llround(seconds * 1e12));
  }
  if (backward.sum)
    return costs;
  return permuteCosts[key] = costs;
}

Costs ReshardingSearch::getLeast(const HeldState &from, bool moves) const {
  Costs least;
  for (const CostModel &model : models) {
    const Cluster &cluster = model.topology.getCluster();
    double bytes = double(getBytes(from.devices[0]) * model.elementBytes);
    double seconds = moves ? std::numeric_limits<double>::infinity() : 0;
    for (const ClusterLevel &level : cluster.levels)
      seconds =
          std::min(seconds, level.latency + bytes / level.getUnitBandwidth());
    least.push_back(
        int64_t((cluster.device.launch + seconds) * (1 - 1e-9) * 1e12));
  }
  return least;
}

const std::vector<ReshardingSearch::Hit> &
ReshardingSearch::getPermutes(unsigned number) {
  auto [known, isNew] = permutes.try_emplace(number);
  if (!isNew)
    return known->second;
  HeldState state = states[number];
  for (unsigned layout = 0; layout < layouts.size(); ++layout) {
    bool isPossible = true, moves = false;
    for (int device = 0; device < devices && isPossible; ++device) {
      auto isFit = [&](const Content &content) {
        return fits(content, layout, device, state.allSummands);
      };
      bool stays =
          isFit(state.devices[device]) || isFit(make(state.devices[0].rows, 0));
      moves |= !stays;
      isPossible =
          stays ||
          llvm::any_of(ArrayRef(state.devices).take_front(devices), isFit);
    }
    if (isPossible)
      known->second.push_back({layout, getLeast(state, moves)});
  }
  return known->second;
}

std::vector<Content>
ReshardingSearch::getDistinct(const HeldState &state) const {
  std::vector<Content> distinct;
  for (int device = 0; device < devices; ++device)
    if (!llvm::is_contained(distinct, state.devices[device]))
      distinct.push_back(state.devices[device]);
  llvm::sort(distinct, [](const Content &a, const Content &b) {
    return std::tie(a.rows, a.summands) < std::tie(b.rows, b.summands);
  });
  return distinct;
}

void ReshardingSearch::forEachPermuted(
    const HeldState &state, llvm::function_ref<void(const HeldState &)> visit) {
  std::vector<Content> contents = getDistinct(state);
  const Content zero = make(state.devices[0].rows, 0);
  if (!isMax && !llvm::is_contained(contents, zero))
    contents.push_back(zero);
  // Without which something would be lost.
  std::vector<bool> isNeeded;
  for (const Content &content : contents) {
    HeldState rest = state;
    for (Content &other : rest.devices)
      if (other == content)
        other = zero;
    isNeeded.push_back(!isComplete(rest));
  }
  HeldState permuted;
  permuted.allSummands = state.allSummands;
  std::vector<int> uses(contents.size());
  std::function<void(int)> place = [&](int device) {
    int missing = 0;
    for (size_t i = 0; i < contents.size(); ++i)
      missing += isNeeded[i] && !uses[i];
    if (missing > devices - device)
      return;
    if (device == devices) {
      if (isComplete(permuted))
        visit(permuted);
      return;
    }
    for (size_t i = 0; i < contents.size(); ++i) {
      permuted.devices[device] = contents[i];
      ++uses[i];
      place(device + 1);
      --uses[i];
    }
  };
  place(0);
}

const std::vector<ReshardingSearch::Exchanged> &
ReshardingSearch::getExchanged(const HeldState &state) {
  std::string key(1, char(state.allSummands));
  for (const Content &content : getDistinct(state))
    key.append(reinterpret_cast<const char *>(&content), sizeof(content));
  auto [known, isNew] = exchanged.try_emplace(key);
  if (isNew)
    forEachPermuted(state, [&](const HeldState &permuted) {
      std::vector<Hit> found = findHits(permuted);
      if (!found.empty())
        known->second.push_back({permuted, std::move(found)});
    });
  return known->second;
}
