//===- ReshardingTest.cpp - Paths between layouts -------------------------===//
//
// Checks what reshardings cost and which steps they have.
// test/unit/Shard/ReshardTest.cpp executes reshardings.
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/Resharding.h"
#include "test/support/ListLayouts.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace heddle;

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
            describe(step.after);
  return text;
}

int64_t picosecondsOf(const Resharding &resharding) {
  int64_t sum = 0;
  for (const ReshardingStep &step : resharding.steps)
    sum += std::llround(step.cost.seconds * 1e12);
  return sum;
}

unsigned countPermutes(const Resharding &path) {
  return unsigned(llvm::count_if(path.steps, [](const ReshardingStep &step) {
    return step.kind == ReshardingStep::Permute;
  }));
}

/// A cluster of four pairs of devices; the network between pairs is slow.
Cluster makePairs() {
  return {"pairs",
          {"device", 1 << 30, 1e12, 3e-6, {{"f32", 1e13}}},
          {{"pair", 2, 1e-6, 1e11, 1}, {"network", 4, 1e-5, 2e9, 1}}};
}

class ReshardingPaths : public testing::TestWithParam<Setting> {};

// A found path has at most one permute. It is no dearer than a detour over any
// third layout, so no other sequence of ops with one permute is cheaper.
TEST_P(ReshardingPaths, NoDetourIsCheaper) {
  const Setting &setting = GetParam();
  std::vector<TensorLayout> layouts = test::listLayouts(
      setting.mesh.size(), setting.shape.size(), setting.isMax);
  int64_t devices = 1;
  for (int64_t size : setting.mesh)
    devices *= size;
  for (const Cluster &cluster : {makeUniformCluster(devices), makePairs()})
    for (int64_t elementBytes : {4, 1 << 22}) {
      ReshardingPlanner planner(
          llvm::cantFail(MeshTopology::create(cluster, setting.mesh)));
      std::vector<std::vector<Resharding>> paths;
      for (const TensorLayout &from : layouts) {
        paths.emplace_back();
        for (const TensorLayout &to : layouts)
          paths.back().push_back(
              planner.find(setting.shape, elementBytes, from, to));
      }
      for (size_t a = 0; a < layouts.size(); ++a)
        for (size_t b = 0; b < layouts.size(); ++b) {
          const Resharding &path = paths[a][b];
          std::string text = describe(layouts[a]) + " to " +
                             describe(layouts[b]) + ":" + describe(path);
          ASSERT_LE(countPermutes(path), 1u) << text;
          if (!path.steps.empty() && !setting.isMax)
            ASSERT_EQ(path.steps.back().after, layouts[b]) << text;
          for (size_t c = 0; c < layouts.size(); ++c) {
            // Replicas may stand for a partial maximum (a value is its own
            // maximum), but not the other way round. So paths that meet in a
            // partial layout are not compared.
            if (setting.isMax && layouts[c].partial)
              continue;
            if (countPermutes(paths[a][c]) + countPermutes(paths[c][b]) <= 1)
              ASSERT_LE(picosecondsOf(path),
                        picosecondsOf(paths[a][c]) + picosecondsOf(paths[c][b]))
                  << text << "\nover " << describe(paths[a][c]) << ","
                  << describe(paths[c][b]);
          }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, ReshardingPaths,
    testing::Values(Setting{{4}, {5, 8}}, Setting{{2, 2}, {}},
                    Setting{{2, 2}, {10}}, Setting{{2, 2}, {4, 8}},
                    Setting{{2, 2}, {5, 7}}, Setting{{2, 2}, {5, 7}, true},
                    Setting{{2, 3}, {12, 10}}, Setting{{2, 2, 2}, {8}},
                    Setting{{2, 2, 2}, {10}}),
    [](const auto &info) {
      std::string name = "mesh";
      for (int64_t size : info.param.mesh)
        name += "_" + std::to_string(size);
      name += "_shape";
      for (int64_t size : info.param.shape)
        name += "_" + std::to_string(size);
      return name + (info.param.isMax ? "_max" : "");
    });

using Dims = std::vector<std::vector<unsigned>>;

// A path of one op costs what MeshTopology says of that op.
TEST(ReshardingPlanner, SingleOpsCostWhatTheyCost) {
  // With less latency within pairs, a gather would be faster than an exchange.
  Cluster cluster = makePairs();
  cluster.levels[0].latency = cluster.levels[1].latency;
  auto topology = llvm::cantFail(MeshTopology::create(cluster, {2, 4}));
  ReshardingPlanner planner(topology);
  // The parts are small, so launches decide and one op is the cheapest.
  const int64_t bytes = 8 * 8 * 4;
  auto cost = [&](const TensorLayout &from, const TensorLayout &to) {
    return planner.find({8, 8}, 4, from, to).cost.seconds;
  };
  auto expect = [](double actual, CollectiveCost expected) {
    EXPECT_NEAR(actual / expected.seconds, 1, 1e-9);
  };
  expect(cost({Dims{{0}, {}}}, {Dims{{}, {}}}),
         topology.allGather(1, bytes / 2));
  expect(cost({Dims{{}, {}}, 1}, {Dims{{0}, {}}}),
         topology.reduceScatter(1, bytes / 2));
  expect(cost({Dims{{1}, {}}}, {Dims{{}, {1}}}),
         topology.allToAll(2, bytes / 16));
  expect(cost({Dims{{}, {}}}, {Dims{{0, 1}, {}}}), topology.local(bytes / 8));
  expect(cost({Dims{{}, {}}}, {Dims{{}, {}}, 2}), topology.local(bytes));
}

// A gather over the slow axis of data that is replicated along the fast axis:
// each replica fetches one part over the slow axis, and then the replicas
// exchange their parts over the fast one.
TEST(ReshardingPlanner, ReplicasShareSlowLinks) {
  ReshardingPlanner planner(
      llvm::cantFail(MeshTopology::create(makePairs(), {2, 2})));
  Resharding found =
      planner.find({8, 8}, 1 << 22, {Dims{{0}, {}}}, {Dims{{}, {}}});
  ASSERT_FALSE(found.steps.empty());
  EXPECT_EQ(found.steps.back().kind, ReshardingStep::AllGather);
  EXPECT_EQ(found.steps.back().axes, std::vector<unsigned>{1});
  // An all-gather over the slow axis alone sends two devices' halves over each
  // link.
  EXPECT_LT(found.cost.seconds,
            0.6 * planner.getTopology().allGather(1, 64 << 21).seconds)
      << describe(found);
}

// Each of two pairs holds a whole copy of the tensor, split over its devices.
// Every device takes its part from its own pair; nothing crosses the network.
TEST(ReshardingPlanner, PermutesTakeTheNearestCopy) {
  ReshardingPlanner planner(
      llvm::cantFail(MeshTopology::create(makePairs(), {2, 2})));
  Resharding found = planner.find({8}, 1 << 22, {Dims{{1}}}, {Dims{{0}}});
  ASSERT_EQ(found.steps.size(), 1u) << describe(found);
  EXPECT_EQ(found.steps[0].sources, (std::vector<int64_t>{0, 0, 3, 3}));
}

// Five of six axes of a mesh change the dimension or the place that they split.
TEST(ReshardingPlanner, ManyAxesMove) {
  ReshardingPlanner planner(llvm::cantFail(
      MeshTopology::create(makeUniformCluster(64), {2, 2, 2, 2, 2, 2})));
  TensorLayout from{Dims{{0, 1}, {2, 3}, {4, 5}}};
  TensorLayout to{Dims{{5, 4}, {3, 1}, {2}}, 1};
  Resharding found = planner.find({64, 64, 60}, 4, from, to);
  ASSERT_FALSE(found.steps.empty());
  EXPECT_EQ(found.steps.back().after, to) << describe(found);
}

// A path from a partial sum to a partial maximum, or back, reduces the value in
// between, because the summands of a value are not parts of a maximum.
TEST(ReshardingPlanner, SumsAndMaximaAreReducedInBetween) {
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
          heldMax = step.after.isMax;
        }
        EXPECT_TRUE(isReduced)
            << (isMax ? "maximum " : "sum ") << describe(from) << " to "
            << describe(to) << ":" << describe(found);
      }
}

// The planner finds the reshardings that a training step usually has, on large
// meshes too. bench/resharding measures how long that takes.
TEST(ReshardingPlanner, FindsUsualPairsOnLargeMeshes) {
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
    // Enough servers for the largest mesh.
    Cluster cluster = llvm::cantFail(loadCluster("dgx-a100"));
    cluster.levels.back().count = 1024;
    auto topology = llvm::cantFail(MeshTopology::create(cluster, mesh));
    ReshardingPlanner planner(topology);
    for (const auto &[from, to] : pairs) {
      Resharding found = planner.find({4096, 11008}, 4, from, to);
      ASSERT_FALSE(found.steps.empty());
      EXPECT_TRUE(found.steps.back().after == to);
    }
  }
}

// The planner finds a resharding for every pair of layouts of a tensor, because
// a planner of layouts asks for all pairs. bench/resharding measures the time.
TEST(ReshardingPlanner, AllPairsHaveSequences) {
  // Enough servers for the largest mesh.
  Cluster cluster = llvm::cantFail(loadCluster("dgx-a100"));
  cluster.levels.back().count = 1024;
  std::vector<TensorLayout> layouts = test::listLayouts(3, 3, false);
  for (std::vector<int64_t> mesh :
       {std::vector<int64_t>{128, 4, 2}, {16, 8, 8}}) {
    ReshardingPlanner planner(
        llvm::cantFail(MeshTopology::create(cluster, mesh)));
    for (const TensorLayout &from : layouts)
      for (const TensorLayout &to : layouts) {
        Resharding found = planner.find({512, 2048, 4096}, 2, from, to);
        const TensorLayout &reached =
            found.steps.empty() ? from : found.steps.back().after;
        ASSERT_EQ(reached, to) << describe(from) << " to " << describe(to)
                               << ":" << describe(found);
      }
  }
}

} // namespace
