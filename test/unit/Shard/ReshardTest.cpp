//===- ReshardTest.cpp - Executes the reshards between all shardings ------===//

#include "dialects/Heddle/Heddle.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "test/support/Interpreter/Grid.h"
#include "test/support/WithContext.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"
#include <random>

using namespace mlir;
using namespace heddle;

namespace {

class ReshardTest : public testing::Test, protected test::WithContext {
protected:
  MeshRef makeMesh(ArrayRef<int64_t> sizes) {
    SmallVector<MeshAxisAttr> axes;
    for (auto [i, size] : llvm::enumerate(sizes))
      axes.push_back(MeshAxisAttr::get(
          &context, StringAttr::get(&context, Twine(char('a' + i))), size));
    return {FlatSymbolRefAttr::get(&context, "mesh"),
            MeshAttr::get(&context, axes)};
  }

  /// Returns every sharding of that rank: each axis splits one dimension, at
  /// any place among the axes that split it, or is partial, or is unused.
  std::vector<ShardingAttr> allShardings(MeshRef mesh, int64_t rank) {
    std::vector<ShardingAttr> all;
    DimensionAxes dims(rank);
    Axes partial;
    visit(mesh, 0, dims, partial, all);
    return all;
  }

  void visit(MeshRef mesh, size_t axis, DimensionAxes &dims, Axes &partial,
             std::vector<ShardingAttr> &all) {
    if (axis == mesh.mesh.getAxes().size()) {
      all.push_back(makeSharding(mesh, dims, partial));
      return;
    }
    StringAttr name = mesh.mesh.getAxes()[axis].getName();
    visit(mesh, axis + 1, dims, partial, all);
    partial.push_back(name);
    visit(mesh, axis + 1, dims, partial, all);
    partial.pop_back();
    for (Axes &dim : dims)
      for (size_t place = 0; place <= dim.size(); ++place) {
        dim.insert(dim.begin() + place, name);
        visit(mesh, axis + 1, dims, partial, all);
        dim.erase(dim.begin() + place);
      }
  }

  /// Returns the devices' parts of a tensor. If the sharding is partial, the
  /// parts of a group add up to the tensor's values.
  std::vector<Tensor> distribute(const Tensor &tensor, ShardingAttr sharding,
                                 MeshRef mesh) {
    auto parts = shardTensor(tensor, sharding.withoutPartial(), mesh.mesh,
                             /*padding=*/99);
    // The device at the origin of the partial axes has x - (n - 1), others 1.
    auto counts = shardTensor(Tensor(tensor.shape, 1),
                              sharding.withoutPartial(), mesh.mesh);
    int64_t n = mesh.getSize(sharding.getPartialAxes());
    for (auto [device, part] : llvm::enumerate(parts)) {
      int64_t rest = device;
      bool first = true;
      for (MeshAxisAttr axis : llvm::reverse(mesh.mesh.getAxes())) {
        if (llvm::is_contained(sharding.getPartialAxes(), axis.getName()))
          first &= rest % axis.getSize() == 0;
        rest /= axis.getSize();
      }
      for (auto [value, inside] : llvm::zip(part.values, counts[device].values))
        if (n > 1 && inside)
          value = first ? value - (n - 1) : 1;
    }
    return parts;
  }

  /// Localizes the reshards from each sharding of `starts` to each of `all` and
  /// executes them on the grid. One function holds all reshards, with an
  /// argument for each start and a result for each pair, so one planner plans
  /// them.
  void check(MeshRef mesh, RankedTensorType type, ArrayRef<ShardingAttr> starts,
             ArrayRef<ShardingAttr> all, StringRef cluster) {
    OpBuilder builder(&context);
    Location loc = builder.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    builder.setInsertionPointToStart(module->getBody());
    builder.create<MeshOp>(loc, mesh.symbol.getValue(), mesh.mesh);
    SmallVector<Type> arguments(starts.size(), type);
    SmallVector<Type> types(starts.size() * all.size(), type);
    auto function = builder.create<func::FuncOp>(
        loc, "f", builder.getFunctionType(arguments, types));
    Block *body = function.addEntryBlock();
    builder.setInsertionPointToStart(body);
    SmallVector<Value> results;
    for (auto [i, from] : llvm::enumerate(starts)) {
      function.setArgAttr(i, kShardingAttrName, from);
      for (ShardingAttr to : all) {
        function.setResultAttr(results.size(), kShardingAttrName, to);
        results.push_back(builder.create<ReshardOp>(
            loc, type, body->getArgument(i), from, to));
      }
    }
    builder.create<func::ReturnOp>(loc, results);
    ASSERT_TRUE(runPasses(*module, ("heddle-localize{cluster=" + cluster +
                                    "},heddle-pack-collectives,"
                                    "heddle-verify-localized")
                                       .str()))
        << diagnostics;

    Tensor tensor(type.getShape());
    for (auto [i, value] : llvm::enumerate(tensor.values))
      value = 1 + i;
    std::vector<std::vector<Tensor>> parts(mesh.mesh.getNumDevices());
    for (ShardingAttr from : starts)
      for (auto [mine, part] : llvm::zip(parts, distribute(tensor, from, mesh)))
        mine.push_back(std::move(part));
    std::vector<Variables> variables(parts.size());
    auto grid = interpretGrid(function, mesh.mesh, parts, variables);
    ASSERT_TRUE(succeeded(grid));
    for (size_t i = 0; i < results.size(); ++i) {
      ShardingAttr from = starts[i / all.size()], to = all[i % all.size()];
      // Adds up a partial result over the partial axes.
      std::vector<Tensor> sums;
      for (auto &device : *grid)
        sums.push_back(std::move(device[i]));
      sumOver(sums, to.getPartialAxes(), mesh);
      auto whole =
          unshardTensor(sums, to.withoutPartial(), mesh.mesh, type.getShape());
      ASSERT_TRUE(bool(whole))
          << describe(type, from, to) << llvm::toString(whole.takeError());
      ASSERT_EQ(whole->values, tensor.values) << describe(type, from, to);
      ++pairs;
    }
  }

  std::string describe(RankedTensorType type, ShardingAttr from,
                       ShardingAttr to) {
    std::string text;
    llvm::raw_string_ostream(text)
        << type << " from " << from << " to " << to << "\n";
    return text;
  }

  void sumOver(std::vector<Tensor> &parts, ArrayRef<StringAttr> axes,
               MeshRef mesh) {
    int64_t stride = 1;
    for (MeshAxisAttr axis : llvm::reverse(mesh.mesh.getAxes())) {
      if (llvm::is_contained(axes, axis.getName())) {
        std::vector<Tensor> sums = parts;
        for (size_t i = 0; i < parts.size(); ++i) {
          int64_t mine = i / stride % axis.getSize();
          std::fill(sums[i].values.begin(), sums[i].values.end(), 0);
          for (int64_t k = 0; k < axis.getSize(); ++k)
            for (auto [a, b] : llvm::zip(sums[i].values,
                                         parts[i + (k - mine) * stride].values))
              a += b;
        }
        parts = sums;
      }
      stride *= axis.getSize();
    }
  }

  size_t pairs = 0;
};

/// The file of a cluster of slow links without latency, so that only bytes
/// count. The destructor removes the file.
class SlowCluster {
public:
  SlowCluster() {
    Cluster cluster{"slow",
                    {"device", 1 << 30, 1e6, 0, {{"f64", 1e9}}},
                    {{"pair", 2, 0, 1e5, 1},
                     {"server", 2, 0, 1e4, 1},
                     {"network", 2, 0, 1e3, 1}}};
    int file;
    EXPECT_FALSE(
        llvm::sys::fs::createTemporaryFile("slow", "json", file, path));
    llvm::raw_fd_ostream(file, /*shouldClose=*/true) << writeCluster(cluster);
  }
  ~SlowCluster() { llvm::sys::fs::remove(path); }

  SmallString<64> path;
};

struct Setting {
  std::vector<int64_t> mesh, shape;
};

class EveryReshard : public ReshardTest,
                     public testing::WithParamInterface<Setting> {};

// On eight devices, starts from a seeded sample of the shardings; with
// HEDDLE_LONG_TESTS=1 from all. test/unit/Cost/ReshardingTest.cpp checks costs.
TEST_P(EveryReshard, HoldsTheSource) {
  Builder builder(&context);
  SlowCluster slow;
  MeshRef mesh = makeMesh(GetParam().mesh);
  auto type = RankedTensorType::get(GetParam().shape, builder.getF64Type());
  std::vector<ShardingAttr> all = allShardings(mesh, type.getRank());
  std::vector<ShardingAttr> starts = all;
  if (!std::getenv("HEDDLE_LONG_TESTS") && mesh.mesh.getNumDevices() > 6) {
    std::mt19937 random(1);
    std::shuffle(starts.begin(), starts.end(), random);
    starts.resize(std::min<size_t>(starts.size(), 3));
  }
  for (StringRef cluster :
       {StringRef(), slow.path.str(), StringRef("rtx3090-nvlink")}) {
    // The interpreter keeps all values of a function until its end, so each
    // function has at most 16 starts.
    for (ArrayRef<ShardingAttr> rest = starts; !rest.empty();
         rest = rest.drop_front(std::min<size_t>(rest.size(), 16))) {
      check(mesh, type, rest.take_front(16), all, cluster);
      if (HasFatalFailure())
        return;
    }
  }
  std::printf("  %zu pairs\n", pairs);
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, EveryReshard,
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

// One or two axes of a large mesh move, so the planner may plan for a slice of
// the mesh. Sizes such as 192 divide evenly over the axes that stay; 50 does
// not.
TEST_F(ReshardTest, AxesStayOnLargeMeshes) {
  MeshRef mesh = makeMesh({4, 2, 3, 2, 2});
  std::mt19937 random(1);
  SlowCluster slow;
  for (std::vector<int64_t> shape : {std::vector<int64_t>{192, 6}, {50, 48}}) {
    auto type = RankedTensorType::get(shape, Builder(&context).getF64Type());
    for (int i = 0; i < 30; ++i) {
      // Places 0 and 1 are the dimensions, place 2 holds the partial axes, and
      // place 3 stands for unused axes.
      DimensionAxes from(3), to;
      SmallVector<unsigned> places;
      for (MeshAxisAttr axis : mesh.mesh.getAxes())
        if (places.push_back(random() % 4); places.back() < 3)
          from[places.back()].push_back(axis.getName());
      to = from;
      for (int moves = 0; moves <= i % 2; ++moves) {
        StringAttr axis = mesh.mesh.getAxes()[random() % 5].getName();
        for (Axes &place : to)
          llvm::erase(place, axis);
        if (unsigned place = random() % 4; place < 3)
          to[place].push_back(axis);
      }
      auto make = [&](DimensionAxes places) {
        Axes partial = places.pop_back_val();
        return makeSharding(mesh, places, partial);
      };
      check(mesh, type, make(from), make(to),
            i % 3 ? StringRef() : "dgx-a100:64");
      if (HasFatalFailure())
        return;
    }
  }
}

TEST_F(ReshardTest, SequencesAreShort) {
  Builder builder(&context);
  MeshRef mesh = makeMesh({2, 2});
  StringAttr a = builder.getStringAttr("a"), b = builder.getStringAttr("b");
  auto type = RankedTensorType::get({8, 8}, builder.getF32Type());
  ReshardSequences sequences(
      mesh, std::make_shared<KnownReshardings>(llvm::cantFail(
                MeshTopology::create(makeUniformCluster(4), {2, 2}))));
  auto kinds = [&](ShardingAttr from, ShardingAttr to) {
    std::vector<int> kinds;
    for (const ReshardStep &step : sequences.plan(type, from, to))
      kinds.push_back(step.kind);
    return kinds;
  };
  using Kinds = std::vector<int>;
  auto s = [&](DimensionAxes dims, Axes partial = {}) {
    return makeSharding(mesh, dims, partial);
  };
  EXPECT_EQ(kinds(s({{a}, {}}), s({{}, {a}})), Kinds{ReshardingStep::AllToAll});
  EXPECT_EQ(kinds(s({{}, {}}, {a}), s({{a}, {}})),
            Kinds{ReshardingStep::ReduceScatter});
  EXPECT_EQ(kinds(s({{}, {}}, {a, b}), s({{}, {}})),
            Kinds{ReshardingStep::AllReduce});
  EXPECT_EQ(kinds(s({{a, b}, {}}), s({{a}, {}})),
            Kinds{ReshardingStep::AllGather});
  EXPECT_EQ(kinds(s({{}, {}}), s({{a}, {b}})),
            (Kinds{ReshardingStep::Slice, ReshardingStep::Slice}));
  EXPECT_EQ(kinds(s({{a, b}, {}}), s({{b, a}, {}})),
            Kinds{ReshardingStep::Permute});
  EXPECT_EQ(kinds(s({{a}, {b}}), s({{b}, {a}})),
            Kinds{ReshardingStep::Permute});
  // Slicing first leaves half of the elements to reduce.
  EXPECT_EQ(kinds(s({{}, {}}, {a}), s({{}, {b}})),
            (Kinds{ReshardingStep::Slice, ReshardingStep::AllReduce}));
}

} // namespace
