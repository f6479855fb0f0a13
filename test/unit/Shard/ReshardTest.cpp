//===- ReshardTest.cpp - Sequences of collectives, exhaustively -----------===//

#include "ReshardSequence.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/InitAll.h"
#include "heddle/Interpreter/Grid.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

class ReshardTest : public testing::Test {
protected:
  ReshardTest() {
    static bool registered = (registerAllPasses(), true);
    (void)registered;
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  MeshRef makeMesh(ArrayRef<int64_t> sizes) {
    SmallVector<MeshAxisAttr> axes;
    for (auto [i, size] : llvm::enumerate(sizes))
      axes.push_back(MeshAxisAttr::get(
          &context, StringAttr::get(&context, Twine(char('a' + i))), size));
    return {FlatSymbolRefAttr::get(&context, "mesh"),
            MeshAttr::get(&context, axes)};
  }

  /// Every sharding of that rank: each axis splits a dimension, after those
  /// that do already, or before them, is partial, or splits nothing.
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

  /// What devices hold of the tensor; of a partial sum, parts that add up.
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

  /// Localizes a reshard and runs it on the grid.
  void check(MeshRef mesh, RankedTensorType type, ShardingAttr from,
             ShardingAttr to) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << "heddle.mesh @mesh " << "<[";
    llvm::interleaveComma(mesh.mesh.getAxes(), stream, [&](MeshAxisAttr axis) {
      stream << axis.getName() << "=" << axis.getSize();
    });
    stream << "]>\nfunc.func @f(%x: " << type << " {heddle.sharding = " << from
           << "}) -> (" << type << " {heddle.sharding = " << to
           << "}) {\n  %y = \"heddle.reshard\"(%x) <{from = " << from
           << ", to = " << to << "}> : (" << type << ") -> " << type
           << "\n  return %y : " << type << "\n}\n";
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    PassManager manager(&context);
    ASSERT_TRUE(succeeded(
        parsePassPipeline("heddle-localize,heddle-verify-localized", manager)));
    ASSERT_TRUE(succeeded(manager.run(*module))) << text;

    Tensor tensor(type.getShape());
    for (auto [i, value] : llvm::enumerate(tensor.values))
      value = 1 + i;
    std::vector<std::vector<Tensor>> arguments;
    for (Tensor &part : distribute(tensor, from, mesh))
      arguments.push_back({part});
    std::vector<Variables> variables(arguments.size());
    auto results = interpretGrid(module->lookupSymbol<func::FuncOp>("f"),
                                 mesh.mesh, arguments, variables);
    ASSERT_TRUE(succeeded(results)) << text;
    // A partial result: what the partial axes hold, added up.
    std::vector<Tensor> parts;
    for (auto &result : *results)
      parts.push_back(result[0]);
    sumOver(parts, to.getPartialAxes(), mesh);
    auto whole =
        unshardTensor(parts, to.withoutPartial(), mesh.mesh, type.getShape());
    ASSERT_TRUE(bool(whole)) << text << llvm::toString(whole.takeError());
    ASSERT_EQ(whole->values, tensor.values) << text;
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

  MLIRContext context;
};

TEST_F(ReshardTest, EveryPairOfShardings) {
  Builder builder(&context);
  struct Setting {
    SmallVector<int64_t> mesh, shape;
  };
  const Setting settings[] = {
      {{4}, {8}},       {{4}, {5, 6}},     {{2, 2}, {8, 4}},
      {{2, 2}, {5, 7}}, {{2, 3}, {6, 6}},  {{2, 3}, {10}},
      {{2, 3}, {7, 4}}, {{2, 2, 2}, {10}}, {{2, 2}, {}},
  };
  for (const Setting &setting : settings) {
    MeshRef mesh = makeMesh(setting.mesh);
    auto type = RankedTensorType::get(setting.shape, builder.getF64Type());
    std::vector<ShardingAttr> all = allShardings(mesh, type.getRank());
    for (ShardingAttr from : all)
      for (ShardingAttr to : all) {
        check(mesh, type, from, to);
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
  auto kinds = [&](ShardingAttr from, ShardingAttr to) {
    std::vector<int> kinds;
    auto steps = planReshard(type, from, to, mesh);
    EXPECT_TRUE(succeeded(steps));
    for (const ReshardStep &step : *steps)
      kinds.push_back(step.kind);
    return kinds;
  };
  using Kinds = std::vector<int>;
  auto s = [&](DimensionAxes dims, Axes partial = {}) {
    return makeSharding(mesh, dims, partial);
  };
  EXPECT_EQ(kinds(s({{a}, {}}), s({{}, {a}})), Kinds{ReshardStep::AllToAll});
  EXPECT_EQ(kinds(s({{}, {}}, {a}), s({{a}, {}})),
            Kinds{ReshardStep::ReduceScatter});
  EXPECT_EQ(kinds(s({{}, {}}, {a, b}), s({{}, {}})),
            Kinds{ReshardStep::AllReduce});
  EXPECT_EQ(kinds(s({{a, b}, {}}), s({{a}, {}})),
            Kinds{ReshardStep::AllGather});
  EXPECT_EQ(kinds(s({{}, {}}), s({{a}, {b}})),
            (Kinds{ReshardStep::Slice, ReshardStep::Slice}));
  // What is sliced first need not be reduced.
  EXPECT_EQ(kinds(s({{}, {}}, {a}), s({{}, {b}})),
            (Kinds{ReshardStep::Slice, ReshardStep::AllReduce}));
}

} // namespace
