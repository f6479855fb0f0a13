//===- PlanVerifierTest.cpp - A good plan, changed by hand ----------------===//

#include "heddle/PlanVerifier/PlanVerifier.h"
#include "heddle/Cost/Cluster.h"
#include "heddle/Import/Import.h"
#include "heddle/InitAll.h"
#include "heddle/Pipelines/Pipelines.h"
#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

/// A plan that uses every key. It fits the step below.
constexpr StringLiteral kPlan = R"({"version": 1,
 "mesh": {"pp": 2, "dp": 2, "tp": 2},
 "operators": {
  "*": {"b": ["dp"], "f": ["tp"], "n": ["tp"], "v": ["tp"]},
  "h.0.mlp.c_fc": {"f": []}},
 "storage": {"adamw.*": {"0": ["dp"]}},
 "splits": {"h.0.mlp.c_fc": {"h": {"slices": 4, "sharded": 2}}},
 "pins": {"h.1.mlp.c_proj": {"b": ["dp"], "s": ["tp"]}},
 "priorities": {"h.*.attn*": 1},
 "stages": [["wte", "wpe", "h.0.*"], ["h.1.*", "ln_f", "lm_head", "loss"]],
 "pipeline": "1f1b",
 "sub_batches": 2,
 "prediction": {"cluster": "test", "rows": 8, "micro_batches": 2,
  "bf16": false, "memory": {"arena": 4000}}})";

/// One way to change the plan, and the rules that it then violates.
struct Change {
  const char *name;
  std::vector<std::pair<const char *, const char *>> edits;
  std::vector<PlanRule> violated;
  bool endsBehind = false; ///< the last edit ends the plan
};

using Rule = PlanRule;
const Change kChanges[] = {
    // Accepted.
    {"Nothing", {}, {}},
    {"AxisOfOneDevice", {{R"("tp": 2)", R"("tp": 1)"}}, {}},
    {"OtherSchedule", {{"1f1b", "gpipe"}}, {}},
    {"StorageOverTp", {{R"({"0": ["dp"]})", R"({"0": ["tp"]})"}}, {}},
    {"StorageOfNothing", {{R"({"0": ["dp"]})", "{}"}}, {}},
    {"MoreSlices", {{R"("slices": 4)", R"("slices": 16)"}}, {}},
    {"PinOfWhole", {{R"({"b": ["dp"], "s": ["tp"]})", "{}"}}, {}},
    {"OtherPriority", {{R"(attn*": 1)", R"(attn*": 7)"}}, {}},
    {"Recomputation", {{R"("sub_batches": 2)", R"("recompute": "layer")"}}, {}},
    {"AllSubBatches", {{R"("sub_batches": 2)", R"("sub_batches": 4)"}}, {}},
    {"SizesOfSubBatches",
     {{R"("sub_batches": 2)", R"("sub_batches": [1, 3])"}},
     {}},
    {"StagesByNumber",
     {{R"([["wte", "wpe", "h.0.*"], ["h.1.*", "ln_f", "lm_head", "loss"]])",
       "2"}},
     {}},
    {"TableOfTasks",
     {{R"("1f1b")", R"({"devices": [["F0.0", "F0.1", "B0.0", "B0.1"],
                                    ["F1.0", "B1.0", "F1.1", "B1.1"]]})"}},
     {}},
    {"NoPrediction",
     {{R"("sub_batches": 2,)", R"("sub_batches": 2})"}},
     {},
     true},
    // The mesh.
    {"TooManyDevices", {{R"("dp": 2)", R"("dp": 4)"}}, {Rule::Devices}},
    {"PartOfAnAxis",
     {{R"("tp": 2})", R"("tp": 2, "tp.0": 1})"}},
     {Rule::AxisName}},
    {"UnknownAxis", {{R"("f": ["tp"])", R"("f": ["cp"])"}}, {Rule::Axis}},
    {"UnknownAxisOfStorage",
     {{R"({"0": ["dp"]})", R"({"0": ["cp"]})"}},
     {Rule::Axis}},
    {"UnknownAxisOfPin", {{R"("s": ["tp"])", R"("s": ["cp"])"}}, {Rule::Axis}},
    {"SplitOverStages",
     {{R"("*": {"b": ["dp"])", R"("*": {"b": ["pp"])"}},
     {Rule::PipelineAxis}},
    {"StorageOverStages",
     {{R"({"0": ["dp"]})", R"({"0": ["pp"]})"}},
     {Rule::PipelineAxis}},
    // Operators.
    {"MisspeltOperator",
     {{R"("h.0.mlp.c_fc": {"f")", R"("h.0.mlp.c_fd": {"f")"}},
     {Rule::Operator}},
    {"UnknownFactor", {{R"("*": {"b")", R"("*": {"z")"}}, {Rule::Factor}},
    {"AxisForTwoFactors",
     {{R"("f": ["tp"])", R"("f": ["dp"])"}},
     {Rule::SharedAxis}},
    {"WholeFactor", {{R"("n": ["tp"])", R"("d": ["tp"])"}}, {Rule::Divides}},
    {"TwoGlobs",
     {{R"("h.0.mlp.c_fc": {"f": []})",
       R"("h.0.mlp.*": {"f": []}, "*.mlp.c_f*": {"f": ["tp"]})"}},
     {Rule::Rival}},
    // Storage and slices.
    {"MisspeltVariable", {{"adamw.*", "adam.*"}}, {Rule::Variable}},
    {"NoSuchDimension", {{R"({"0": [)", R"({"7": [)"}}, {Rule::Dimension}},
    {"AxisForTwoDimensions",
     {{R"({"0": ["dp"]})", R"({"0": ["dp"], "1": ["dp"]})"}},
     {Rule::SharedAxis}},
    {"TooManySlices", {{R"("slices": 4)", R"("slices": 17)"}}, {Rule::Slices}},
    {"NoSuchSlicedFactor",
     {{R"({"h": {"sl)", R"({"n": {"sl)"}},
     {Rule::Factor}},
    {"SlicedAndSplit",
     {{R"({"h": {"sl)", R"({"b": {"sl)"}},
     {Rule::SlicedAxis}},
    {"SlicedRows",
     {{R"({"h": {"slices": 4)", R"({"s": {"slices": 4)"}},
     {Rule::SlicedParameter}},
    {"SlicesWithoutParameter",
     {{R"("splits": {"h.0.mlp.c_fc": {"h": {)",
       R"("splits": {"h.0.attn": {"d": {)"}},
     {Rule::SlicedParameter}},
    {"MisspeltSplit",
     {{R"("splits": {"h.0)", R"("splits": {"h.9)"}},
     {Rule::Operator}},
    // Pins and priorities.
    {"MisspeltPin", {{"h.1.mlp.c_proj", "h.9.mlp.c_proj"}}, {Rule::Operator}},
    {"PinOfSummedFactor",
     {{R"("s": ["tp"])", R"("f": ["tp"])"}},
     {Rule::Factor}},
    {"PinOfAxisTwice",
     {{R"("s": ["tp"])", R"("s": ["dp"])"}},
     {Rule::SharedAxis}},
    {"MisspeltPriority",
     {{R"("h.*.attn*": 1)", R"("h.*.atn*": 1)"}},
     {Rule::Operator}},
    {"PriorityWithoutEntry",
     {{R"("*": {"b")", R"("h.*": {"b")"},
      {R"(, "v": ["tp"])", ""},
      {R"("h.*.attn*": 1)", R"("ln_f": 1)"}},
     {Rule::Effect}},
    // The pipeline and the step.
    {"MisspeltStage",
     {{R"(["h.1.*", "ln_f")", R"(["h.1.*", "lm_f")"}},
     {Rule::Operator}},
    {"OperatorOfTwoStages",
     {{R"("h.0.*"])", R"("h.0.*", "h.1.*"])"}},
     {Rule::StageOfOperator}},
    {"StageWithoutOperators",
     {{R"("wpe", "h.0.*"], ["h.1.*", "ln_f", "lm_head", "loss"])",
       R"("wpe", "h.0.*", "h.1.*", "ln_f", "lm_head", "loss"], ["h.*"])"}},
     {Rule::EmptyStage}},
    {"StagesInAnotherOrder",
     {{R"([["wte", "wpe", "h.0.*"], ["h.1.*", "ln_f", "lm_head", "loss"]])",
       R"([["h.1.*", "ln_f", "lm_head", "loss"], ["wte", "wpe", "h.0.*"]])"}},
     {Rule::StageOrder}},
    {"ThreeStagesOnTwoDevices",
     {{R"("ln_f", "lm_head")", R"("ln_f"], ["lm_head")"}},
     {Rule::Stages}},
    {"OneChunkForTwo", {{"1f1b", "zb-v"}}, {Rule::Schedule}},
    {"TableWithoutAMicroBatch",
     {{R"("1f1b")", R"({"devices": [["F0.0", "B0.0"], ["F1.0", "B1.0"]]})"}},
     {Rule::Schedule}},
    {"TooManySubBatches",
     {{R"("sub_batches": 2)", R"("sub_batches": 5)"}},
     {Rule::SubBatches}},
    {"TooFewSamplesInSubBatches",
     {{R"("sub_batches": 2)", R"("sub_batches": [1, 2])"}},
     {Rule::SubBatches}},
    // The prediction.
    {"OtherRows", {{R"("rows": 8)", R"("rows": 16)"}}, {Rule::PredictedStep}},
    {"OtherMicroBatches",
     {{R"("micro_batches": 2)", R"("micro_batches": 4)"}},
     {Rule::PredictedStep}},
    {"OtherType",
     {{R"("bf16": false)", R"("bf16": true)"}},
     {Rule::PredictedStep}},
    {"OtherSequence",
     {{R"("bf16": false)", R"("sequence": 16)"}},
     {Rule::PredictedStep}},
    {"OtherOptimizer",
     {{R"("bf16": false)", R"("optimizer": "sgd")"}},
     {Rule::PredictedStep}},
    {"ItsSequenceAndOptimizer",
     {{R"("bf16": false)", R"("sequence": 8, "optimizer": "adamw")"}},
     {}},
    {"OtherCluster",
     {{R"("cluster": "test")", R"("cluster": "laptop")"}},
     {Rule::PredictedStep}},
    {"TooMuchPredicted",
     {{R"("arena": 4000)", R"("arena": 2000000000)"}},
     {Rule::PredictedMemory}},
    // Several at once: errors first.
    {"Four",
     {{R"("rows": 8)", R"("rows": 16)"},
      {"adamw.*", "adam.*"},
      {R"("slices": 4)", R"("slices": 17)"},
      {R"("f": ["tp"])", R"("f": ["cp"])"}},
     {Rule::Axis, Rule::Variable, Rule::Slices, Rule::PredictedStep}},
};

class PlanVerifierTest : public testing::TestWithParam<Change> {
protected:
  PlanVerifierTest() : context(makeRegistry()) {
    cluster = makeUniformCluster(8);
    cluster.name = "test";
    cluster.device.memory = 1 << 30;
  }

  /// A step of GPT-2: 4 rows in each micro-batch.
  OwningOpRef<ModuleOp> makeStep(int64_t microBatches) {
    ImportOptions import;
    import.gpt = GptShape{2, 16, 4, 32, 8};
    import.sequence = 8;
    import.batch = 4;
    FailureOr<OwningOpRef<ModuleOp>> module = importModel(context, import);
    CompileOptions options;
    options.training.microBatches = microBatches;
    if (failed(module) || failed(runPhases(**module, options, Phase::Autodiff)))
      return {};
    return std::move(*module);
  }

  std::vector<PlanProblem> verify(StringRef text, int64_t microBatches = 2) {
    OwningOpRef<ModuleOp> step = makeStep(microBatches);
    llvm::Expected<Plan> plan = parsePlan(text, "plan.json");
    if (!plan || !step) {
      ADD_FAILURE() << (plan ? "no step" : llvm::toString(plan.takeError()));
      return {};
    }
    PlanSetting setting;
    setting.cluster = &cluster;
    std::vector<PlanProblem> problems = verifyPlan(*step, *plan, setting);
    for (const PlanProblem &problem : problems) {
      EXPECT_NE(problem.position.line, 0u) << problem.path;
      EXPECT_TRUE(StringRef(problem.path).starts_with("$.")) << problem.path;
    }
    return problems;
  }

  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }

  MLIRContext context;
  Cluster cluster;
};

TEST_P(PlanVerifierTest, RefusesOrAccepts) {
  std::string text = kPlan.str();
  for (auto [from, to] : GetParam().edits) {
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, StringRef(from).size(), to);
    if (GetParam().endsBehind)
      text.resize(at + StringRef(to).size());
  }
  std::vector<PlanRule> found;
  std::string messages;
  for (const PlanProblem &problem : verify(text)) {
    found.push_back(problem.rule);
    messages += problem.path + ": " + problem.message + "\n";
  }
  EXPECT_EQ(found, GetParam().violated) << messages;
}

INSTANTIATE_TEST_SUITE_P(Changes, PlanVerifierTest, testing::ValuesIn(kChanges),
                         [](const testing::TestParamInfo<Change> &change) {
                           return std::string(change.param.name);
                         });

// googletest prints a failed parameter.
void PrintTo(const Change &change, std::ostream *stream) {
  *stream << change.name;
}

using PlanVerifierStepTest = PlanVerifierTest;

TEST_F(PlanVerifierStepTest, APipelineNeedsMicroBatches) {
  std::vector<PlanProblem> problems =
      verify(R"({"version": 1, "mesh": {"pp": 2}, "pipeline": "1f1b"})", 1);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems.front().rule, PlanRule::MicroBatches);
}

TEST_F(PlanVerifierStepTest, OneProblemForManyOperators) {
  std::vector<PlanProblem> problems = verify(
      R"({"version": 1, "mesh": {"dp": 2}, "operators": {"h.*.attn": {"d": ["dp"]}}})",
      1);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems.front().others, 1); // h.1.attn
}

TEST_F(PlanVerifierStepTest, MemoryOfVariables) {
  OwningOpRef<ModuleOp> step = makeStep(2);
  CompileOptions options;
  options.training.microBatches = 2;
  options.mesh.data = {2};
  options.zeroLevel = 1;
  ASSERT_TRUE(succeeded(runPhases(*step, options, Phase::Sharded)));
  int64_t parameters = 0;
  for (auto variable : step->getOps<VariableOp>())
    if (variable.getRole() == VariableRole::Parameter)
      parameters += variable.getTensorType().getNumElements() * 4;
  Plan plan;
  // Whole parameters and gradients, half of AdamW's two moments; alignment adds
  // less than one percent.
  cluster.device.memory = parameters * 3 * 101 / 100 + 4096;
  EXPECT_TRUE(verifyPlanMemory(*step, plan, cluster).empty());
  cluster.device.memory = parameters * 3 - 1;
  std::vector<PlanProblem> problems = verifyPlanMemory(*step, plan, cluster);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems.front().rule, PlanRule::Memory);
}

} // namespace
