//===- ReshardingTest.cpp - The planner against all short sequences -------===//
//
// For every pair of layouts, the cheapest sequence of at most three ops is
// searched in another way than the planner's: devices are simulated by the rows
// of each dimension that they hold, every op over every axes in every order
// moves these rows as the collective does, and a sequence is right if every
// device ends with the rows that it should have. On the way, rows may be in an
// order that no layout describes, though not after two ops in a row.
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/Resharding.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "gtest/gtest.h"
#include <cmath>
#include <set>
#include <unordered_map>

using namespace heddle;
using llvm::ArrayRef;

namespace {

/// Global numbers of rows; -1 is padding.
using Rows = std::vector<int16_t>;

/// What all devices hold: rows of [device][dim], and the axes of a partial sum.
struct Held {
  std::vector<std::vector<Rows>> rows;
  AxisMask partial = 0;

  std::string key() const {
    std::string key(1, char(partial));
    for (const std::vector<Rows> &device : rows)
      for (const Rows &dim : device) {
        for (int16_t row : dim)
          key.push_back(char(row));
        key.push_back(char(0x80));
      }
    return key;
  }
};

struct Setting {
  std::vector<int64_t> mesh, shape;
};

class Simulation {
public:
  Simulation(const MeshTopology &topology, std::vector<int64_t> shape,
             int64_t elementBytes)
      : topology(topology), shape(std::move(shape)),
        elementBytes(elementBytes) {
    visit(0,
          TensorLayout{std::vector<std::vector<unsigned>>(this->shape.size()),
                       0, false});
    for (const TensorLayout &layout : layouts)
      starts.push_back(intern(hold(layout)));
    layoutStates = states.size();
  }

  std::vector<TensorLayout> layouts;
  std::vector<unsigned> starts; ///< the states of the layouts

  /// Picoseconds of the best way of at most three ops from a layout to each.
  std::vector<int64_t> best(size_t from) {
    std::vector<int64_t> cost(states.size(), INT64_MAX);
    std::set<unsigned> front = {starts[from]};
    cost[starts[from]] = 0;
    for (int round = 0; round < 3; ++round) {
      auto next = cost;
      std::set<unsigned> changed;
      for (unsigned state : front)
        for (auto [target, price] : edgesOf(state)) {
          if (target >= next.size())
            next.resize(states.size(), INT64_MAX);
          if (cost[state] + price < next[target]) {
            next[target] = cost[state] + price;
            changed.insert(target);
          }
        }
      cost = std::move(next);
      front = std::move(changed);
    }
    std::vector<int64_t> best;
    for (unsigned start : starts)
      best.push_back(cost[start]);
    return best;
  }

private:
  using Edge = std::pair<unsigned, int64_t>;

  void visit(unsigned axis, TensorLayout layout) {
    if (axis == topology.getAxisSizes().size()) {
      layouts.push_back(layout);
      return;
    }
    visit(axis + 1, layout);
    TensorLayout partial = layout;
    partial.partial |= 1u << axis;
    visit(axis + 1, partial);
    for (size_t dim = 0; dim < shape.size(); ++dim)
      for (size_t place = 0; place <= layout.dims[dim].size(); ++place) {
        TensorLayout more = layout;
        more.dims[dim].insert(more.dims[dim].begin() + place, axis);
        visit(axis + 1, more);
      }
  }

  int64_t index(int64_t device, ArrayRef<unsigned> axes) const {
    int64_t index = 0;
    for (unsigned axis : axes)
      index = index * topology.getAxisSizes()[axis] +
              topology.getCoordinate(device, axis);
    return index;
  }

  Held hold(const TensorLayout &layout) const {
    Held held;
    held.partial = layout.partial;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
      held.rows.emplace_back();
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        int64_t parts = 1;
        for (unsigned axis : layout.dims[dim])
          parts *= topology.getAxisSizes()[axis];
        int64_t size = (shape[dim] + parts - 1) / parts;
        int64_t first = size * index(device, layout.dims[dim]);
        Rows rows;
        for (int64_t row = first; row < first + size; ++row)
          rows.push_back(row < shape[dim] ? row : -1);
        held.rows.back().push_back(rows);
      }
    }
    return held;
  }

  unsigned intern(const Held &held) {
    auto [known, isNew] =
        numbers.try_emplace(held.key(), unsigned(states.size()));
    if (isNew)
      states.push_back(held);
    return known->second;
  }

  /// States are numbered from those of layouts on.
  bool isLayoutKey(const std::string &key) const {
    auto known = numbers.find(key);
    return known != numbers.end() && known->second < layoutStates;
  }

  const std::vector<Edge> &edgesOf(unsigned state) {
    auto [known, isNew] = edges.try_emplace(state);
    if (isNew) {
      std::map<unsigned, int64_t> cheapest;
      moves(Held(states[state]), [&](const Held &held, CollectiveCost cost) {
        bool isLayout = isLayoutKey(held.key());
        if (!isLayout && state >= layoutStates)
          return;
        int64_t price = std::llround(cost.seconds * 1e12);
        auto [edge, first] = cheapest.try_emplace(intern(held), price);
        edge->second = std::min(edge->second, price);
      });
      known->second.assign(cheapest.begin(), cheapest.end());
    }
    return known->second;
  }

  int64_t bytes(const Held &held) const {
    int64_t bytes = elementBytes;
    for (const Rows &rows : held.rows[0])
      bytes *= rows.size();
    return bytes;
  }

  /// Groups over ordered axes, members in this order.
  std::vector<std::vector<int64_t>> groups(ArrayRef<unsigned> axes) const {
    std::map<std::vector<int64_t>, std::vector<int64_t>> byRest;
    int64_t members = 1;
    for (unsigned axis : axes)
      members *= topology.getAxisSizes()[axis];
    for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
      std::vector<int64_t> rest;
      for (unsigned i = 0; i < topology.getAxisSizes().size(); ++i)
        rest.push_back(llvm::is_contained(axes, i)
                           ? -1
                           : topology.getCoordinate(device, i));
      auto &group = byRest[rest];
      group.resize(members);
      group[index(device, axes)] = device;
    }
    std::vector<std::vector<int64_t>> all;
    for (auto &[rest, group] : byRest)
      all.push_back(group);
    return all;
  }

  /// Whether the members of each group hold the same rows of all dimensions but
  /// those of `except`.
  static bool agree(const Held &held,
                    const std::vector<std::vector<int64_t>> &groups,
                    ArrayRef<size_t> except) {
    for (const std::vector<int64_t> &group : groups)
      for (int64_t member : group)
        for (size_t dim = 0; dim < held.rows[0].size(); ++dim)
          if (!llvm::is_contained(except, dim) &&
              held.rows[member][dim] != held.rows[group[0]][dim])
            return false;
    return true;
  }

  static Rows cut(const Rows &rows, int64_t members, int64_t member) {
    int64_t size = (int64_t(rows.size()) + members - 1) / members;
    Rows part;
    for (int64_t i = member * size; i < (member + 1) * size; ++i)
      part.push_back(i < int64_t(rows.size()) ? rows[i] : -1);
    return part;
  }

  static std::optional<Rows> join(const Held &held, ArrayRef<int64_t> group,
                                  size_t dim, int64_t total) {
    Rows rows;
    for (int64_t member : group)
      llvm::append_range(rows, held.rows[member][dim]);
    rows.resize(total);
    std::set<int16_t> seen;
    for (int16_t row : rows)
      if (row >= 0 && !seen.insert(row).second)
        return std::nullopt; // of no use
    return rows;
  }

  /// Sizes that a dimension of parts can be gathered to.
  std::vector<int64_t> totals(size_t dim, int64_t part, int64_t members) const {
    std::set<int64_t> sizes;
    for (int64_t parts = 1; parts <= topology.getNumDevices(); ++parts) {
      int64_t size = (shape[dim] + parts - 1) / parts;
      if ((size + members - 1) / members == part)
        sizes.insert(size);
    }
    sizes.insert(part * members);
    return {sizes.begin(), sizes.end()};
  }

  using Visit = llvm::function_ref<void(const Held &, CollectiveCost)>;

  void moves(const Held &held, Visit visit) {
    unsigned numAxes = topology.getAxisSizes().size();
    for (AxisMask mask = 1; mask < (1u << numAxes); ++mask) {
      std::vector<unsigned> axes;
      for (unsigned i = 0; i < numAxes; ++i)
        if (mask >> i & 1)
          axes.push_back(i);
      do
        movesOver(held, mask, axes, visit);
      while (std::next_permutation(axes.begin(), axes.end()));
    }
    permutes(held, visit);
  }

  void movesOver(const Held &held, AxisMask mask,
                 const std::vector<unsigned> &axes, Visit visit) {
    auto members = groups(axes);
    int64_t size = members[0].size();
    bool isReplicated = !(held.partial & mask) && agree(held, members, {});
    bool isSummed = (held.partial & mask) == mask && agree(held, members, {});
    bool isSorted = std::is_sorted(axes.begin(), axes.end());
    auto forEach = [&](Held &next, auto change) {
      for (const std::vector<int64_t> &group : members)
        for (auto [i, member] : llvm::enumerate(group))
          change(next.rows[member], group, int64_t(i));
    };
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (isReplicated || isSummed) {
        Held next = held;
        next.partial &= ~mask;
        forEach(next, [&](auto &rows, auto &, int64_t i) {
          rows[dim] = cut(rows[dim], size, i);
        });
        visit(next, isReplicated ? topology.local(bytes(next))
                                 : topology.reduceScatter(mask, bytes(next)));
      }
      if (!(held.partial & mask) && agree(held, members, dim))
        for (int64_t total : totals(dim, held.rows[0][dim].size(), size)) {
          Held next = held;
          bool isUseful = true;
          forEach(next, [&](auto &rows, auto &group, int64_t) {
            if (auto joined = join(held, group, dim, total))
              rows[dim] = *joined;
            else
              isUseful = false;
          });
          if (isUseful)
            visit(next, topology.allGather(mask, bytes(held)));
        }
      for (size_t split = 0; split < shape.size(); ++split) {
        if (split == dim || (held.partial & mask) || !agree(held, members, dim))
          continue;
        for (int64_t total : totals(dim, held.rows[0][dim].size(), size)) {
          Held next = held;
          bool isUseful = true;
          forEach(next, [&](auto &rows, auto &group, int64_t i) {
            rows[split] = cut(rows[split], size, i);
            if (auto joined = join(held, group, dim, total))
              rows[dim] = *joined;
            else
              isUseful = false;
          });
          Held block = held;
          block.rows[0][split] = cut(held.rows[0][split], size, 0);
          if (isUseful)
            visit(next, topology.allToAll(mask, bytes(block)));
        }
      }
    }
    if (!isSorted)
      return;
    if (isSummed) {
      Held next = held;
      next.partial &= ~mask;
      visit(next, topology.allReduce(mask, bytes(held)));
    }
    if (isReplicated) {
      Held next = held;
      next.partial |= mask;
      visit(next, topology.local(bytes(held)));
    }
  }

  /// What a device holds, and of a partial sum which part, as one thing.
  std::pair<std::vector<Rows>, int64_t> content(const Held &held,
                                                int64_t device) const {
    std::vector<unsigned> partial;
    for (unsigned i = 0; i < topology.getAxisSizes().size(); ++i)
      if (held.partial >> i & 1)
        partial.push_back(i);
    return {held.rows[device], index(device, partial)};
  }

  /// To every layout for which some permutation of what is there will do.
  void permutes(const Held &held, Visit visit) {
    int64_t devices = topology.getNumDevices();
    std::multiset<std::pair<std::vector<Rows>, int64_t>> all;
    for (int64_t device = 0; device < devices; ++device)
      all.insert(content(held, device));
    for (unsigned start : starts) {
      Held target = states[start];
      std::multiset<std::pair<std::vector<Rows>, int64_t>> wanted;
      for (int64_t device = 0; device < devices; ++device)
        wanted.insert(content(target, device));
      if (wanted != all)
        continue;
      // By levels: from the nearest device that has not given.
      std::vector<int64_t> sources(devices, -1);
      std::vector<bool> isGiven(devices);
      for (int level = -1; level < 4; ++level)
        for (int64_t device = 0; device < devices; ++device)
          for (int64_t from = 0; from < devices && sources[device] < 0; ++from)
            if (!isGiven[from] &&
                topology.getMeetingLevel(from, device) <= level &&
                content(held, from) == content(target, device)) {
              sources[device] = from;
              isGiven[from] = true;
            }
      visit(target, topology.permute(sources, bytes(held)));
    }
  }

  const MeshTopology &topology;
  std::vector<int64_t> shape;
  int64_t elementBytes;
  std::vector<Held> states;
  unsigned layoutStates = 0;
  std::unordered_map<std::string, unsigned> numbers;
  std::map<unsigned, std::vector<Edge>> edges;
};

std::string describe(const TensorLayout &layout) {
  std::string text = "[";
  for (const std::vector<unsigned> &dim : layout.dims) {
    text += "{";
    for (unsigned axis : dim)
      text += char('a' + axis);
    text += "}";
  }
  text += "] partial ";
  for (unsigned i = 0; i < 8; ++i)
    if (layout.partial >> i & 1)
      text += char('a' + i);
  return text;
}

std::string describe(const Resharding &resharding) {
  std::string text;
  for (const ReshardingStep &step : resharding.steps)
    text += " " + stringifyReshardingKind(step.kind).str() + "->" +
            (step.after ? describe(*step.after) : "?");
  return text;
}

int64_t picosecondsOf(const Resharding &resharding) {
  int64_t sum = 0;
  for (const ReshardingStep &step : resharding.steps)
    sum += std::llround(step.cost.seconds * 1e12);
  return sum;
}

/// Pairs of two devices, slowly joined.
Cluster makePairs() {
  return {"pairs",
          {"device", 1 << 30, 1e12, 3e-6, {{"f32", 1e13}}},
          {{"pair", 2, 1e-6, 1e11, 1}, {"network", 4, 1e-5, 2e9, 1}}};
}

void compare(const Setting &setting, const Cluster &cluster,
             int64_t elementBytes) {
  SCOPED_TRACE(
      cluster.name + " mesh " +
      llvm::join(llvm::map_range(setting.mesh,
                                 [](int64_t n) { return std::to_string(n); }),
                 "x") +
      " element bytes " + std::to_string(elementBytes));
  auto topology = llvm::cantFail(MeshTopology::create(cluster, setting.mesh));
  Simulation simulation(topology, setting.shape, elementBytes);
  ReshardingPlanner planner(topology);
  size_t longer = 0, pairs = 0;
  for (size_t from = 0; from < simulation.layouts.size(); ++from) {
    std::vector<int64_t> best = simulation.best(from);
    for (size_t to = 0; to < simulation.layouts.size(); ++to) {
      Resharding found =
          planner.find(setting.shape, elementBytes, simulation.layouts[from],
                       simulation.layouts[to]);
      int64_t cost = picosecondsOf(found);
      ++pairs;
      longer += found.steps.size() > 3;
      // A longer sequence has to be worth it.
      if (found.steps.size() > 3)
        ASSERT_LT(cost, best[to])
            << describe(simulation.layouts[from]) << " to "
            << describe(simulation.layouts[to]) << ":" << describe(found);
      else
        ASSERT_EQ(cost, best[to])
            << describe(simulation.layouts[from]) << " to "
            << describe(simulation.layouts[to]) << ":" << describe(found);
    }
  }
  std::printf("  %zu pairs, %zu with more than three steps\n", pairs, longer);
}

class ReshardingOptimum : public testing::TestWithParam<Setting> {};

TEST_P(ReshardingOptimum, NoShortSequenceIsCheaper) {
  const Setting &setting = GetParam();
  int64_t devices = 1;
  for (int64_t size : setting.mesh)
    devices *= size;
  for (int64_t elementBytes : {4, 1 << 22}) {
    compare(setting, makeUniformCluster(devices), elementBytes);
    if (HasFatalFailure())
      return;
    compare(setting, makePairs(), elementBytes);
    if (HasFatalFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, ReshardingOptimum,
    testing::Values(Setting{{4}, {}}, Setting{{4}, {8}}, Setting{{4}, {5, 8}},
                    Setting{{4}, {4, 8, 6}}, Setting{{2, 2}, {}},
                    Setting{{2, 2}, {8}}, Setting{{2, 2}, {5}},
                    Setting{{2, 2}, {1, 4}}, Setting{{2, 2}, {4, 8}},
                    Setting{{2, 2}, {5, 7}}, Setting{{2, 2}, {4, 4, 8}},
                    Setting{{2, 2}, {3, 4, 5}}, Setting{{2, 3}, {}},
                    Setting{{2, 3}, {12}}, Setting{{2, 3}, {10}},
                    Setting{{2, 3}, {6, 12}}, Setting{{2, 3}, {7, 4}},
                    Setting{{2, 3}, {6, 6, 12}}, Setting{{2, 3}, {4, 5, 9}},
                    Setting{{2, 2, 2}, {}}, Setting{{2, 2, 2}, {8}},
                    Setting{{2, 2, 2}, {10}}, Setting{{2, 2, 2}, {8, 16}},
                    Setting{{2, 2, 2}, {6, 9}}, Setting{{2, 2, 2}, {8, 8, 16}},
                    Setting{{2, 2, 2}, {8, 5, 6}}),
    [](const auto &info) {
      std::string name = "mesh";
      for (int64_t size : info.param.mesh)
        name += "_" + std::to_string(size);
      name += "_shape";
      for (int64_t size : info.param.shape)
        name += "_" + std::to_string(size);
      return name;
    });

} // namespace
