//===- PlanOperatorsTest.cpp - Plans of operators on one mesh -------------===//

#include "heddle/Cost/Cluster.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Planner/Operators.h"
#include "mlir/Parser/Parser.h"
#include "test/support/WithContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

/// A network of `layers` equal layers (a norm, two products, a sum) between an
/// embedding and a head.
std::string makeModel(int layers) {
  std::string variables =
      "heddle.variable @table.weight : tensor<512x256xf32> parameter "
      "init(normal<0.02>)\n"
      "heddle.variable @steps : tensor<i64> counter init(zeros)\n";
  std::string body =
      "%table = heddle.load @table.weight : tensor<512x256xf32>\n"
      "%x0 = heddle.embedding \"table\" %table, %ids : tensor<512x256xf32>, "
      "tensor<16x64xi32> -> tensor<16x64x256xf32>\n";
  for (int i = 0; i < layers; ++i) {
    std::string n = std::to_string(i);
    auto variable = [&](const std::string &name, const std::string &type) {
      variables += "heddle.variable @layer." + n + "." + name + " : " + type +
                   " parameter init(normal<0.02>)\n";
      body += "%" + name + n + " = heddle.load @layer." + n + "." + name +
              " : " + type + "\n";
    };
    variable("gain", "tensor<256xf32>");
    variable("up", "tensor<256x1024xf32>");
    variable("down", "tensor<1024x256xf32>");
    body += "%n" + n + ", %r" + n + " = heddle.rms_norm \"layer." + n +
            ".norm\" %x" + n + ", %gain" + n +
            " epsilon(1.0e-5) : (tensor<16x64x256xf32>, tensor<256xf32>) -> "
            "(tensor<16x64x256xf32>, tensor<16x64xf32>)\n"
            "%u" +
            n + " = heddle.contract \"layer." + n +
            ".up\" [bsh, hf -> bsf] %n" + n + ", %up" + n +
            " : (tensor<16x64x256xf32>, tensor<256x1024xf32>) -> "
            "tensor<16x64x1024xf32>\n"
            "%a" +
            n + " = heddle.gelu %u" + n +
            " approximate(tanh) : tensor<16x64x1024xf32>\n"
            "%d" +
            n + " = heddle.contract \"layer." + n +
            ".down\" [bsf, fh -> bsh] %a" + n + ", %down" + n +
            " : (tensor<16x64x1024xf32>, tensor<1024x256xf32>) -> "
            "tensor<16x64x256xf32>\n"
            "%x" +
            std::to_string(i + 1) + " = arith.addf %x" + n + ", %d" + n +
            " : tensor<16x64x256xf32>\n";
  }
  return variables +
         R"mlir(
func.func @forward(
    %ids: tensor<16x64xi32> {heddle.name = "tokens", heddle.role = #heddle.port_role<features>},
    %targets: tensor<16x64xi32> {heddle.name = "targets", heddle.role = #heddle.port_role<labels>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
)mlir" + body +
         "%logits = heddle.contract \"head\" [bsh, vh -> bsv] %x" +
         std::to_string(layers) +
         R"mlir(, %table : (tensor<16x64x256xf32>, tensor<512x256xf32>) -> tensor<16x64x512xf32>
  %losses, %lse = heddle.cross_entropy "loss" %logits, %targets
    : tensor<16x64x512xf32>, tensor<16x64xi32> -> tensor<16x64xf32>, tensor<16x64xf32>
  %sum = heddle.reduce sum %losses over [0, 1] : tensor<16x64xf32> -> tensor<f32>
  %count = arith.constant dense<1024.0> : tensor<f32>
  return %sum, %count : tensor<f32>, tensor<f32>
})mlir";
}

class PlanOperatorsTest : public testing::Test, protected test::WithContext {
protected:
  /// Returns the training step of the model.
  OwningOpRef<ModuleOp> makeStep(int layers) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(makeModel(layers), ParserConfig(&context));
    EXPECT_TRUE(module) << diagnostics;
    CompileOptions options;
    EXPECT_TRUE(succeeded(runPhases(*module, options, Phase::Autodiff)))
        << diagnostics;
    return module;
  }

  /// Devices that compute as fast as they read, so that all ops matter.
  static Cluster makeCluster(int64_t devices, double bandwidth = 1e9) {
    Cluster cluster;
    cluster.name = "test";
    cluster.device = {"test", int64_t(1) << 34, 1e10, 1e-6, {{"f32", 1e11}}};
    cluster.levels = {{"links", devices, 1e-6, bandwidth, 1}};
    return cluster;
  }

  static MeshTopology makeTopology(const Plan &plan, double bandwidth = 1e9) {
    std::vector<int64_t> sizes;
    for (const PlanAxis &axis : plan.mesh)
      sizes.push_back(axis.size);
    llvm::Expected<MeshTopology> topology = MeshTopology::create(
        makeCluster(plan.getNumDevices(), bandwidth), sizes);
    EXPECT_TRUE(bool(topology));
    return *topology;
  }
};

TEST_F(PlanOperatorsTest, IsNoWorseThanStandardPlans) {
  OwningOpRef<ModuleOp> module = makeStep(2);
  for (double bandwidth : {1e8, 1e9, 1e10})
    for (auto [data, tensor] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 4}, {4, 1}, {2, 2}})
      for (int64_t zero : {0, 1}) {
        llvm::Expected<Plan> standard =
            makeDefaultPlan(*module, {{data}, {tensor}}, zero);
        ASSERT_TRUE(bool(standard));
        MeshTopology topology = makeTopology(*standard, bandwidth);
        OperatorsOptions options;
        options.base.mesh = standard->mesh;
        auto planned = planOperators(*module, topology, options);
        ASSERT_TRUE(succeeded(planned)) << diagnostics;
        EXPECT_TRUE(planned->isOptimal);
        auto predicted = predictStep(*module, *standard, topology);
        ASSERT_TRUE(succeeded(predicted)) << diagnostics;
        // Costs and predictions differ by less than this.
        EXPECT_LE(planned->prediction.getSeconds(),
                  predicted->getSeconds() * 1.01)
            << "bandwidth " << bandwidth << " dp " << data << " tp " << tensor
            << " zero " << zero << "\n"
            << writePlan(planned->plan);
        EXPECT_NEAR(planned->prediction.getSeconds() / planned->seconds, 1,
                    0.1);
      }
}

// Known costs save time and change nothing, for other meshes neither.
TEST_F(PlanOperatorsTest, RemembersCosts) {
  OwningOpRef<ModuleOp> few = makeStep(2), many = makeStep(3);
  KnownCosts known;
  for (ModuleOp module : {*few, *many})
    for (const std::vector<PlanAxis> &mesh :
         {std::vector<PlanAxis>{{"dp", 2}, {"tp", 2}},
          std::vector<PlanAxis>{{"dp", 4}, {"tp", 2}}})
      for (double exposed : {1.0, 0.1}) {
        OperatorsOptions options;
        options.base.mesh = mesh;
        for (int kind = 0; kind <= ReshardingStep::KeepFirst; ++kind)
          options.exposure.set(ReshardingStep::Kind(kind), 0, exposed);
        MeshTopology topology = makeTopology(options.base, 1e8);
        auto alone = planOperators(module, topology, options);
        options.known = &known;
        auto reminded = planOperators(module, topology, options);
        ASSERT_TRUE(succeeded(alone) && succeeded(reminded)) << diagnostics;
        EXPECT_EQ(writePlan(reminded->plan), writePlan(alone->plan));
        EXPECT_EQ(reminded->seconds, alone->seconds);
      }
}

TEST_F(PlanOperatorsTest, LayersArePlannedAsOne) {
  OwningOpRef<ModuleOp> few = makeStep(3), many = makeStep(9);
  OperatorsOptions options;
  options.base.mesh = {{"dp", 2}, {"tp", 2}};
  MeshTopology topology = makeTopology(options.base);
  auto small = planOperators(*few, topology, options);
  auto large = planOperators(*many, topology, options);
  ASSERT_TRUE(succeeded(small) && succeeded(large)) << diagnostics;
  EXPECT_EQ(small->numNodes, large->numNodes);
  for (const OperatorsResult *result : {&*small, &*large}) {
    std::vector<std::string> globs;
    for (const FactorEntry &entry : result->plan.operators)
      globs.push_back(entry.glob);
    EXPECT_TRUE(llvm::is_contained(globs, "layer.*.up"));
    EXPECT_TRUE(llvm::is_contained(globs, "layer.*.down"));
  }
  for (const OperatorChoice &choice : large->choices)
    if (choice.glob == "layer.*.up" && !choice.isVariable) {
      EXPECT_EQ(choice.count, 9);
      ASSERT_TRUE(choice.runnerUp);
      EXPECT_GE(choice.runnerUp->seconds, choice.chosen.seconds);
    }
}

TEST_F(PlanOperatorsTest, KeepsWhatIsFixed) {
  OwningOpRef<ModuleOp> module = makeStep(2);
  OperatorsOptions options;
  options.base.mesh = {{"x", 4}};
  options.base.operators = {{"layer.0.up", {{"s", {"x"}, {}}}, {}}};
  MeshTopology topology = makeTopology(options.base);
  auto planned = planOperators(*module, topology, options);
  ASSERT_TRUE(succeeded(planned)) << diagnostics;
  const FactorEntry *entry =
      findPlanEntry(planned->plan.operators, "layer.0.up", std::string("s"));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->find("s")->axes, std::vector<std::string>{"x"});
}

// A pin on one layer does not fix the layers that are equal to it.
TEST_F(PlanOperatorsTest, FixesOneLayerAlone) {
  OwningOpRef<ModuleOp> module = makeStep(3);
  OperatorsOptions options;
  options.base.mesh = {{"x", 4}};
  MeshTopology topology = makeTopology(options.base);
  auto free = planOperators(*module, topology, options);
  options.base.operators = {
      {"layer.0.up",
       {{"b", {}, {}}, {"s", {}, {}}, {"h", {}, {}}, {"f", {}, {}}},
       {}}};
  auto fixed = planOperators(*module, topology, options);
  ASSERT_TRUE(succeeded(free) && succeeded(fixed)) << diagnostics;
  auto getAxes = [](const Plan &plan, llvm::StringRef name) {
    std::string axes;
    for (std::string factor : {"b", "s", "h", "f"})
      if (const FactorEntry *entry =
              findPlanEntry(plan.operators, name, factor))
        for (const std::string &axis : entry->find(factor)->axes)
          axes += factor + ":" + axis + " ";
    return axes;
  };
  EXPECT_EQ(getAxes(fixed->plan, "layer.0.up"), "");
  EXPECT_NE(getAxes(free->plan, "layer.2.up"), "");
  for (const char *name : {"layer.1.up", "layer.2.up"})
    EXPECT_EQ(getAxes(fixed->plan, name), getAxes(free->plan, name)) << name;
}

TEST_F(PlanOperatorsTest, StoresLessWhereMemoryIsShort) {
  OwningOpRef<ModuleOp> module = makeStep(2);
  OperatorsOptions options;
  options.base.mesh = {{"dp", 4}};
  options.base.operators = {{"*", {{"b", {"dp"}, {}}}, {}}};
  MeshTopology topology = makeTopology(options.base, 1e7);
  auto ample = planOperators(*module, topology, options);
  ASSERT_TRUE(succeeded(ample)) << diagnostics;
  options.memoryLimit = ample->prediction.memory.getTotal() * 23 / 25;
  auto scarce = planOperators(*module, topology, options);
  ASSERT_TRUE(succeeded(scarce)) << diagnostics;
  EXPECT_EQ(scarce->isFeasible,
            scarce->prediction.memory.getTotal() <= *options.memoryLimit);
  EXPECT_LT(scarce->bytes, ample->bytes);
  EXPECT_LT(scarce->prediction.memory.parameters,
            ample->prediction.memory.parameters);
  EXPECT_GE(scarce->seconds, ample->seconds);
  EXPECT_FALSE(scarce->plan.storage.empty());
  options.memoryLimit = 1000;
  auto none = planOperators(*module, topology, options);
  ASSERT_TRUE(succeeded(none)) << diagnostics;
  EXPECT_FALSE(none->isFeasible);
  // If nothing fits, the answer does not depend on the limit.
  EXPECT_LE(none->bytes, scarce->bytes);
  options.memoryLimit = none->bytes - 1;
  auto nearly = planOperators(*module, topology, options);
  ASSERT_TRUE(succeeded(nearly)) << diagnostics;
  EXPECT_FALSE(nearly->isFeasible);
  EXPECT_EQ(nearly->bytes, none->bytes);
  EXPECT_EQ(writePlan(nearly->plan), writePlan(none->plan));
}

TEST_F(PlanOperatorsTest, IsTheSameOnAnyNumberOfThreads) {
  OwningOpRef<ModuleOp> module = makeStep(2);
  OperatorsOptions options;
  options.base.mesh = {{"a", 2}, {"b", 2}};
  MeshTopology topology = makeTopology(options.base);
  std::string first;
  for (unsigned threads : {1, 2, 3}) {
    options.threads = threads;
    auto planned = planOperators(*module, topology, options);
    ASSERT_TRUE(succeeded(planned)) << diagnostics;
    std::string text = writePlan(planned->plan);
    first = first.empty() ? text : first;
    EXPECT_EQ(text, first);
  }
}

TEST_F(PlanOperatorsTest, ReportsABaseThatDoesNotFit) {
  OwningOpRef<ModuleOp> module = makeStep(1);
  OperatorsOptions options;
  options.base.mesh = {{"a", 4}};
  // Both factors on one axis.
  options.base.operators = {{"head", {{"b", {"a"}, {}}, {"v", {"a"}, {}}}, {}}};
  MeshTopology topology = makeTopology(options.base);
  EXPECT_TRUE(failed(planOperators(*module, topology, options)));
  EXPECT_NE(diagnostics.find("cannot be split as the plan says"),
            std::string::npos)
      << diagnostics;
  diagnostics.clear();
  options.base.operators.clear();
  options.base.mesh = {{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}};
  EXPECT_TRUE(
      failed(planOperators(*module, makeTopology(options.base), options)));
  EXPECT_NE(diagnostics.find("a mesh of at most 3 axes"), std::string::npos)
      << diagnostics;
  diagnostics.clear();
  options.base.mesh = {{"a", 2}};
  EXPECT_TRUE(failed(planOperators(*module, topology, options)));
  EXPECT_NE(diagnostics.find("to have the same axes"), std::string::npos)
      << diagnostics;
}

TEST_F(PlanOperatorsTest, HiddenCommunicationCostsLess) {
  OwningOpRef<ModuleOp> module = makeStep(2);
  OperatorsOptions options;
  options.base.mesh = {{"dp", 4}};
  options.base.operators = {{"*", {{"b", {"dp"}, {}}}, {}}};
  MeshTopology topology = makeTopology(options.base);
  auto exposed = planOperators(*module, topology, options);
  for (auto kind : {ReshardingStep::AllReduce, ReshardingStep::ReduceScatter,
                    ReshardingStep::AllGather})
    options.exposure.set(kind, 0, 0.25);
  auto hidden = planOperators(*module, topology, options);
  ASSERT_TRUE(succeeded(exposed) && succeeded(hidden)) << diagnostics;
  EXPECT_LT(hidden->seconds, exposed->seconds);
  EXPECT_LT(hidden->prediction.exposedSeconds,
            hidden->prediction.communicationSeconds);
}

} // namespace
