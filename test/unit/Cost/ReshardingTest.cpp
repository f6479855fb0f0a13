//===- ReshardingTest.cpp - The planner against all short sequences -------===//
//
// For every pair of layouts, no sequence of at most three ops that
// ReshardingSearch finds is cheaper than what ReshardingPlanner plans, on
// uniform clusters and on ones with slow links between pairs of devices, for
// messages whose time is all latency and for such whose time is all bandwidth;
// in the long mode also for some in between.
//
// On eight devices, and of tensors of rank 3 on six, a seeded sample of the
// layouts to start from is tried; HEDDLE_LONG_TESTS=1 tries all.
//
//===----------------------------------------------------------------------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <cmath>
#include <ctime>
#include <random>

using namespace heddle;
using namespace heddle::test;

namespace {

struct Setting {
  std::vector<int64_t> mesh, shape;
  bool isMax = false;
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

bool isLong() { return std::getenv("HEDDLE_LONG_TESTS"); }

/// Pairs of two devices, slowly joined.
Cluster makePairs() {
  return {"pairs",
          {"device", 1 << 30, 1e12, 3e-6, {{"f32", 1e13}}},
          {{"pair", 2, 1e-6, 1e11, 1}, {"network", 4, 1e-5, 2e9, 1}}};
}

class ReshardingOptimum : public testing::TestWithParam<Setting> {
protected:
  ReshardingOptimum() {
    for (int64_t size : GetParam().mesh)
      devices *= size;
    std::vector<int64_t> sizes = {4, 1 << 22};
    if (isLong())
      sizes.push_back(1 << 16);
    for (int64_t elementBytes : sizes)
      for (const Cluster &cluster : {makeUniformCluster(devices), makePairs()})
        models.push_back(
            {llvm::cantFail(MeshTopology::create(cluster, GetParam().mesh)),
             elementBytes});
    for (const CostModel &model : models)
      planners.emplace_back(model.topology);
  }

  /// The numbers of the layouts to start from.
  std::vector<size_t> chooseStarts(size_t layouts) const {
    std::vector<size_t> starts(layouts);
    std::iota(starts.begin(), starts.end(), 0);
    bool isSmall =
        devices <= 4 || (devices <= 6 && GetParam().shape.size() <= 2);
    if (isSmall || isLong())
      return starts;
    std::mt19937 random(1);
    std::shuffle(starts.begin(), starts.end(), random);
    starts.resize(std::min<size_t>(layouts, 4));
    return starts;
  }

  int64_t devices = 1;
  std::vector<CostModel> models;
  std::vector<ReshardingPlanner> planners;
};

TEST_P(ReshardingOptimum, NoShortSequenceIsCheaper) {
  const Setting &setting = GetParam();
  ReshardingSearch search(setting.mesh, setting.shape, models, setting.isMax);
  llvm::ArrayRef<TensorLayout> layouts = search.getLayouts();
  size_t pairs = 0, longer = 0;
  double planSeconds = 0;
  for (size_t from : chooseStarts(layouts.size())) {
    std::vector<Costs> costs(layouts.size());
    std::vector<std::vector<Resharding>> found(layouts.size());
    std::clock_t start = std::clock();
    for (size_t to = 0; to < layouts.size(); ++to)
      for (size_t i = 0; i < models.size(); ++i) {
        found[to].push_back(planners[i].find(
            setting.shape, models[i].elementBytes, layouts[from], layouts[to]));
        costs[to].push_back(picosecondsOf(found[to].back()));
      }
    planSeconds += double(std::clock() - start) / CLOCKS_PER_SEC;
    std::vector<Costs> best = search.find(from, costs);
    for (size_t to = 0; to < layouts.size(); ++to)
      for (size_t i = 0; i < models.size(); ++i) {
        const Resharding &path = found[to][i];
        ++pairs;
        longer += path.steps.size() > 3;
        EXPECT_LE(costs[to][i], best[to][i])
            << describe(layouts[from]) << " to " << describe(layouts[to])
            << ", model " << i << ":" << describe(path);
        // What the planner has found, the search must find, too. But it does
        // not take the maximum of whole values for a sum of them and zeros, nor
        // joined zeros and padding for zeros.
        bool hasZeros = false, joinsZeros = false;
        for (const ReshardingStep &step : path.steps) {
          hasZeros |= llvm::is_contained(step.sources, -1);
          joinsZeros |= hasZeros && (step.kind == ReshardingStep::AllGather ||
                                     step.kind == ReshardingStep::AllToAll);
        }
        bool isTried = !setting.isMax && !joinsZeros;
        if (path.steps.size() <= 3 && isTried)
          EXPECT_EQ(costs[to][i], best[to][i])
              << describe(layouts[from]) << " to " << describe(layouts[to])
              << ", model " << i << ":" << describe(path);
      }
  }
  std::printf("  %zu pairs, %zu with more than three steps, %zu states tried, "
              "planned in %.3f ms each\n",
              pairs, longer, search.getNumStates(), planSeconds / pairs * 1e3);
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, ReshardingOptimum,
    testing::Values(Setting{{4}, {}}, Setting{{4}, {8}}, Setting{{4}, {5, 8}},
                    Setting{{4}, {4, 8, 6}}, Setting{{2, 2}, {}},
                    Setting{{2, 2}, {8}}, Setting{{2, 2}, {5, 7}, true},
                    Setting{{2, 2}, {5}}, Setting{{2, 2}, {1, 4}},
                    Setting{{2, 2}, {4, 8}}, Setting{{2, 2}, {5, 7}},
                    Setting{{2, 2}, {4, 4, 8}}, Setting{{2, 2}, {3, 4, 5}},
                    Setting{{2, 3}, {}}, Setting{{2, 3}, {12}},
                    Setting{{2, 3}, {10}}, Setting{{2, 3}, {6, 12}},
                    Setting{{2, 3}, {7, 4}}, Setting{{2, 3}, {6, 6, 12}},
                    Setting{{2, 3}, {4, 5, 9}}, Setting{{2, 2, 2}, {}},
                    Setting{{2, 2, 2}, {1}}, Setting{{2, 2, 2}, {3}},
                    Setting{{2, 3}, {1}}, Setting{{2, 2, 2}, {8}},
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
      if (info.param.isMax)
        name += "_max";
      return name;
    });

// The parts of a sum are no parts of a maximum, nor the other way round: a
// value is whole in between.
TEST(ReshardingPlanner, SumsAndMaximaAreReducedInBetween) {
  using Dims = std::vector<std::vector<unsigned>>;
  ReshardingPlanner planner(
      llvm::cantFail(MeshTopology::create(makePairs(), {2, 2, 2})));
  const Dims splits[] = {Dims{{}},     Dims{{0}},    Dims{{1}},    Dims{{2}},
                         Dims{{0, 1}}, Dims{{1, 0}}, Dims{{0, 2}}, Dims{{2, 0}},
                         Dims{{1, 2}}, Dims{{2, 1}}};
  std::vector<TensorLayout> layouts;
  for (const Dims &dims : splits)
    for (AxisMask partial = 1; partial < 8; ++partial)
      if (llvm::none_of(dims[0],
                        [&](unsigned axis) { return partial >> axis & 1; }))
        layouts.push_back({dims, partial});
  for (bool isMax : {false, true})
    for (TensorLayout from : layouts)
      for (TensorLayout to : layouts) {
        from.isMax = isMax;
        to.isMax = !isMax;
        Resharding found = planner.find({8}, 1 << 22, from, to);
        bool isReduced = false, heldMax = isMax;
        for (const ReshardingStep &step : found.steps) {
          isReduced |= (step.kind == ReshardingStep::AllReduce ||
                        step.kind == ReshardingStep::ReduceScatter) &&
                       heldMax == isMax;
          heldMax = step.isMax;
        }
        EXPECT_TRUE(isReduced)
            << (isMax ? "maximum " : "sum ") << describe(from) << " to "
            << describe(to) << ":" << describe(found);
      }
}

// What both devices of a pair need of another pair crosses the slow link once.
TEST(ReshardingPlanner, RelaysCrossSlowLinksOnce) {
  ReshardingPlanner planner(
      llvm::cantFail(MeshTopology::create(makePairs(), {2, 2, 2})));
  Resharding found = planner.find({10}, 1 << 22, {{{0, 1}}}, {{{1, 0}}});
  ASSERT_EQ(found.steps.size(), 2u) << describe(found);
  for (const ReshardingStep &step : found.steps)
    EXPECT_EQ(step.kind, ReshardingStep::Permute);
  // Three rows over the network and three inside a pair.
  double bytes = 3 << 22;
  EXPECT_NEAR(found.cost.seconds,
              3e-6 + 1e-5 + bytes / 2e9 + 3e-6 + 1e-6 + bytes / 1e11, 1e-12);
}

// Inside groups whose own links are slower than those between them, values pass
// over the latter: two permutes, though nobody needs the same value.
TEST(ReshardingPlanner, RelaysGoRoundSlowInnerLinks) {
  Cluster cluster = makePairs();
  cluster.levels = {{"pair", 2, 1e-6, 1e11, 1},
                    {"quad", 2, 1e-6, 1e9, 1},
                    {"network", 2, 1e-6, 1e11, 1}};
  ReshardingPlanner planner(
      llvm::cantFail(MeshTopology::create(cluster, {2, 2, 2})));
  Resharding found = planner.find({3}, 1 << 18, {{{0, 1, 2}}}, {{{0, 2, 1}}});
  ASSERT_EQ(found.steps.size(), 2u) << describe(found);
  for (const ReshardingStep &step : found.steps)
    EXPECT_EQ(step.kind, ReshardingStep::Permute);
  // Two rows leave the first quad, and both come back.
  double bytes = 2 << 18;
  EXPECT_NEAR(found.cost.seconds, 2 * (3e-6 + 1e-6 + bytes / 1e11), 1e-12);
}

// Where an axis stays, the plan is that of the mesh without it, on links that
// the slices share: of 16 servers of eight devices, the last axis is a server.
TEST(ReshardingPlanner, AxesThatStayAreLeftOut) {
  using Dims = std::vector<std::vector<unsigned>>;
  Cluster cluster = llvm::cantFail(loadCluster("dgx-a100:16"));
  Cluster servers = cluster;
  servers.levels = {cluster.levels[1]};
  servers.levels[0].bandwidth /= 8;
  ReshardingPlanner whole(
      llvm::cantFail(MeshTopology::create(cluster, {16, 8})));
  ReshardingPlanner slice(llvm::cantFail(MeshTopology::create(servers, {16})));
  for (bool isMax : {false, true}) {
    const std::pair<TensorLayout, TensorLayout> pairs[] = {
        {{Dims{{1, 0}, {}}}, {Dims{{1}, {0}}}},
        {{Dims{{1}, {}}, 1, isMax}, {Dims{{1}, {0}}}},
        {{Dims{{}, {0}}, 2, isMax}, {Dims{{0}, {}}, 2, isMax}},
        {{Dims{{}, {0}}, 2, isMax}, {Dims{{}, {}}, 3, isMax}},
        {{Dims{{}, {}}, 3, isMax}, {Dims{{}, {}}, 2, isMax}},
        {{Dims{{0}, {}}}, {Dims{{}, {}}}},
    };
    for (auto [from, to] : pairs) {
      auto without = [](TensorLayout layout) {
        for (std::vector<unsigned> &dim : layout.dims)
          llvm::erase(dim, 1u);
        layout.partial &= 1;
        return layout;
      };
      // Rows of the first dimension that are a slice's.
      int64_t rows = from.dims[0].empty() || from.dims[0][0] == 0 ? 1024 : 128;
      Resharding found = whole.find({1024, 512}, 4, from, to);
      Resharding wanted =
          slice.find({rows, 512}, 4, without(from), without(to));
      ASSERT_EQ(found.steps.size(), wanted.steps.size());
      ASSERT_FALSE(found.steps.empty());
      for (auto [a, b] : llvm::zip(found.steps, wanted.steps)) {
        EXPECT_EQ(a.kind, b.kind);
        EXPECT_EQ(a.axes, b.axes);
        EXPECT_EQ(a.localShape, b.localShape);
        EXPECT_NEAR(a.cost.seconds / b.cost.seconds, 1, 1e-12);
        ASSERT_TRUE(a.after);
        EXPECT_EQ(a.after->partial >> 1, from.partial >> 1);
        EXPECT_EQ(a.isMax, isMax && a.after->partial);
      }
      // Copies are their maximum.
      EXPECT_EQ(found.steps.back().after->dims, to.dims);
      if (!isMax)
        EXPECT_EQ(*found.steps.back().after, to);
    }
  }
  // Rows that slices do not hold alike: all devices are planned for.
  TensorLayout from{Dims{{1, 0}}}, to{Dims{{1}}};
  EXPECT_EQ(*whole.find({1000}, 4, from, to).steps.back().after, to);
}

/// What a training step asks for, each from a planner that knows nothing yet.
TEST(ReshardingPlanner, UsualPairsArePlannedInTime) {
  using Dims = std::vector<std::vector<unsigned>>;
  const std::pair<TensorLayout, TensorLayout> pairs[] = {
      {{Dims{{0}, {}}}, {Dims{{}, {0}}}},     // all-to-all
      {{Dims{{0, 1}, {}}}, {Dims{{0}, {}}}},  // all-gather
      {{Dims{{0}, {1}}}, {Dims{{}, {}}}},     // gathers
      {{Dims{{0}, {}}, 2}, {Dims{{0}, {}}}},  // all-reduce
      {{Dims{{}, {1}}, 1}, {Dims{{0}, {1}}}}, // reduce-scatter
      {{Dims{{}, {}}, 3}, {Dims{{}, {}}}},    // all-reduce over both
      {{Dims{{}, {}}}, {Dims{{0}, {1}}}},     // slices
      {{Dims{{0}, {1}}}, {Dims{{1}, {0}}}},   // permute
  };
  for (std::vector<int64_t> mesh : {std::vector<int64_t>{2, 4},
                                    {2, 2, 2},
                                    {8, 8},
                                    {2, 4, 8},
                                    {8, 8, 8},
                                    {64, 8},
                                    {64, 8, 8},
                                    {8, 8, 64}}) {
    // More servers of the same kind, for larger meshes.
    Cluster cluster = llvm::cantFail(loadCluster("dgx-a100"));
    cluster.levels.back().count = 1024;
    auto topology = llvm::cantFail(MeshTopology::create(cluster, mesh));
    double sum = 0, most = 0;
    for (const auto &[from, to] : pairs) {
      ReshardingPlanner planner(topology);
      std::clock_t start = std::clock();
      Resharding found = planner.find({4096, 11008}, 4, from, to);
      double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
      EXPECT_FALSE(found.steps.empty());
      sum += seconds;
      most = std::max(most, seconds);
    }
    std::printf("  %lld devices, %zu axes: %.3f ms each, at most %.3f ms\n",
                static_cast<long long>(topology.getNumDevices()), mesh.size(),
                sum / std::size(pairs) * 1e3, most * 1e3);
    // Far above what was measured: it must not explode.
    EXPECT_LT(most, 1.0);
  }
}

} // namespace
