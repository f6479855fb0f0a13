//===- StageModelTest.cpp - Pipelines from the times of few layers --------===//

#include "Judge/KindOrders.h"
#include "Judge/StagePieces.h"
#include "PlanRequests.h"
#include "heddle/Planner/Front.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

/// A GPT of many layers, whose head takes as much as a layer or two.
PlanRequest makeDeepRequest(int64_t layers) {
  return makeRequest(8, 32, {layers, 256, 4, 2048, 128});
}

// The two stages that are compiled have fast links. The first and the last
// stage of the real pipeline exchange the gradients of the table over slow
// ones.
TEST(Pipelines, ExchangeTablesOverTheirOwnLinks) {
  PlanRequest request = makeRequest(4, 16, {12, 256, 4, 8192, 128});
  slowDown(request, 1e9);
  Judges judges(request);
  BoundModel bounds = makeBounds(request, judges.first());
  for (int64_t data : {1, 2}) {
    Candidate candidate;
    candidate.mesh.pipeline = 4 / data;
    candidate.mesh.data = {data};
    candidate.mesh.statesData = true;
    candidate.mesh.schedule = PipelineSchedule::ZBH1;
    candidate.microBatches = 8;
    candidate.overlap = Overlap::Auto;
    CandidateBounds bound = cantFail(bounds.rate(candidate));
    JudgeTask task{candidate, bound.update * double(candidate.mesh.pipeline)};
    PlanFigures few = cantFail(std::move(judges.judge(task).front()));
    PlanFigures whole =
        cantFail(judges.first().judge(task.candidate, 12)).figures;
    // The table has 8 MiB.
    EXPECT_GT(few.exposed, 8e-3);
    EXPECT_GT(bound.estimate, 8e-3);
    EXPECT_NEAR(few.seconds, whole.seconds, 0.05 * whole.seconds)
        << candidate.getName();
  }
}

// The costs of a deep pipeline follow from two pipelines of two stages.
TEST(Pipelines, AreExtrapolatedFromFewLayers) {
  PlanRequest request = makeDeepRequest(12);
  Judges judges(request);
  BoundModel bounds = makeBounds(request, judges.first());
  struct Case {
    int64_t pipeline, data, tensor, zeroLevel, microBatches;
    PipelineSchedule schedule;
  };
  for (Case c : {Case{2, 4, 1, 1, 8, PipelineSchedule::OneFOneB},
                 Case{4, 1, 2, 0, 16, PipelineSchedule::OneFOneB},
                 Case{4, 2, 1, 0, 8, PipelineSchedule::ZBH1},
                 Case{2, 2, 2, 1, 8, PipelineSchedule::Interleaved},
                 Case{4, 2, 1, 1, 8, PipelineSchedule::Interleaved}}) {
    Candidate candidate;
    candidate.mesh.pipeline = c.pipeline;
    candidate.mesh.data = {c.data};
    candidate.mesh.statesData = true;
    candidate.mesh.tensor = {c.tensor};
    candidate.mesh.schedule = c.schedule;
    candidate.zeroLevel = c.zeroLevel;
    candidate.microBatches = c.microBatches;
    candidate.overlap = Overlap::Auto;
    // The update of as many layers.
    CandidateBounds bound = cantFail(bounds.rate(candidate));
    JudgeTask task{candidate, bound.update * double(c.pipeline)};
    PlanFigures few = cantFail(std::move(judges.judge(task).front()));
    EXPECT_LE(bound.seconds, few.seconds) << candidate.getName();
    Judgement whole =
        cantFail(judges.first().judge(task.candidate, *request.program.layers));
    EXPECT_LE(bound.seconds, whole.figures.seconds) << candidate.getName();
    EXPECT_EQ(int64_t(whole.plan.stages.size()), candidate.getNumStages());
    EXPECT_NEAR(few.seconds, whole.figures.seconds,
                0.03 * whole.figures.seconds)
        << candidate.getName();
    auto bytes = double(whole.figures.memory.total());
    EXPECT_NEAR(double(few.memory.total()), bytes, 0.05 * bytes)
        << candidate.getName();
  }
}

// The last stage runs forward and backward as one program, whose layers may
// take less.
TEST(Pipelines, AreBoundedByTheFasterLayers) {
  CompiledStages few, more;
  few.layers = 1;
  more.layers = 2;
  few.first.forward = 3;
  more.first.forward = 5;
  few.last.forward = 4;
  more.last.forward = 5;
  StageModel model(few, more);
  EXPECT_DOUBLE_EQ(model.getSecondsOfLayer(), 1);
  EXPECT_DOUBLE_EQ(model.getSeconds(6), 3 + 4 + 4);
  std::swap(few.first, few.last);
  std::swap(more.first, more.last);
  EXPECT_DOUBLE_EQ(StageModel(few, more).getSecondsOfLayer(), 1);
}

// The first stage may be on the kind that is best for it, and the last one,
// too.
TEST(Pipelines, AreBoundedByTheBestKindOfEachStage) {
  auto makeModel = [](double first, double last, double layer) {
    CompiledStages few, more;
    few.layers = 1;
    more.layers = 2;
    few.first.forward = first;
    more.first.forward = first + layer;
    few.last.forward = last;
    more.last.forward = last + layer;
    return StageModel(few, more);
  };
  StageModel model = makeModel(5, 9, 3);
  model.addKind(makeModel(2, 9, 2));
  model.addKind(makeModel(5, 4, 3));
  EXPECT_DOUBLE_EQ(model.getSeconds(6), 2 + 4 + 4 * 2);
}

// Stages on devices that are twice as fast have twice as many layers.
TEST(Pipelines, AreBalancedOverKindsOfDevice) {
  Cluster cluster{"two kinds", {}, {{"links", 4, 0, 1e12, 1}}};
  cluster.groups = {{{"fast", 300, 1e12, 0, {{"f32", 2e12}}}, 2},
                    {{"slow", 100, 1e12, 0, {{"f32", 1e12}}}, 2}};
  cluster.device =
      getWeaker(cluster.groups[0].device, cluster.groups[1].device);
  auto makeModel = [](double seconds) {
    CompiledStages few, more;
    few.layers = 1;
    more.layers = 2;
    few.first.forward = few.last.forward = seconds;
    more.first.forward = more.last.forward = 2 * seconds;
    few.update = seconds;
    more.update = 2 * seconds;
    few.first.parameters = few.last.parameters = 10;
    more.first.parameters = more.last.parameters = 20;
    return StageModel(few, more);
  };
  StageModel model = makeModel(2);
  model.addKind(makeModel(1));
  model.addKind(makeModel(2));
  EXPECT_DOUBLE_EQ(model.getSecondsOfLayer(), 1);
  Candidate candidate;
  candidate.mesh.pipeline = 2;
  candidate.mesh.data = {2};
  candidate.microBatches = 2;
  MeshTopology topology =
      llvm::cantFail(MeshTopology::create(cluster, {int64_t(2), int64_t(2)}));
  std::vector<int64_t> layers = model.balance(candidate, 12, topology);
  EXPECT_EQ(layers, (std::vector<int64_t>{8, 4}));
  PlanFigures figures =
      llvm::cantFail(model.predict(candidate, layers, topology, {}));
  // One stage has 8 layers on a device of 300 bytes, the other 4 layers on a
  // device of 100 bytes. The second stage has less memory left.
  EXPECT_EQ(figures.memory.parameters, 40);
  EXPECT_EQ(figures.extraMemory, 0);
  EXPECT_TRUE(figures.mixed.empty());
  // The fast device updates 8 layers in the time of 4 on the slow one.
  PlanFigures passes = llvm::cantFail(
      model.predict(candidate, layers, topology, {/*update=*/0, 1}));
  EXPECT_DOUBLE_EQ(figures.seconds - passes.seconds, 8);
  // Stages of both kinds take the time of the slow one.
  candidate.mesh.data = {4};
  candidate.mesh.pipeline = 1;
  topology =
      llvm::cantFail(MeshTopology::create(cluster, {int64_t(1), int64_t(4)}));
  figures = llvm::cantFail(model.predict(candidate, {12}, topology, {}));
  EXPECT_EQ(figures.mixed, std::vector<std::string>{"fast or slow"});
}

// Each order of two or three kinds, unless another order has other links.
TEST(Pipelines, HaveTheKindsInAnyOrder) {
  using Order = std::vector<int64_t>;
  PlanRequest request;
  Cluster &cluster = request.cluster;
  cluster.levels = {{"in", 2, 0, 1, 1}, {"out", 3, 0, 1, 1}};
  cluster.groups = {{{"a", 3, 1, 0, {}}, 2},
                    {{"b", 2, 1, 0, {}}, 2},
                    {{"c", 1, 1, 0, {}}, 2}};
  request.devices = 6;
  EXPECT_EQ(getKindOrders(request), std::vector<Order>{{}});
  request.ordersKinds = true;
  EXPECT_EQ(getKindOrders(request),
            (std::vector<Order>{
                {}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}));
  Cluster ordered = orderKinds(cluster, {2, 0, 1});
  EXPECT_EQ(ordered.groups[0].device.kind, "c");
  EXPECT_EQ(ordered.groups[2].device.kind, "b");
  EXPECT_EQ(ordered.name, " (c, a, b)");
  // A server of two kinds.
  cluster.groups[0].count = 3;
  cluster.groups[1].count = 1;
  EXPECT_EQ(getKindOrders(request), std::vector<Order>{{}});
  cluster.levels = {{"all", 6, 0, 1, 1}};
  EXPECT_EQ(getKindOrders(request).size(), 6u);
  // The others are left out.
  request.devices = 4;
  EXPECT_EQ(getKindOrders(request), std::vector<Order>{{}});
}

TEST(Front, HasWholeNumbersOfDevices) {
  Cluster cluster{"servers", {}, {{"in", 8, 0, 1, 1}, {"out", 3, 0, 1, 1}}};
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(getDeviceCounts(cluster, 24), (Counts{1, 2, 4, 8, 24}));
  EXPECT_EQ(getDeviceCounts(cluster, 8), (Counts{1, 2, 4, 8}));
  EXPECT_EQ(getDeviceCounts(cluster, 6), (Counts{1, 2, 4, 6}));
}

// Pipelines share stages that their data parallelism does not change.
TEST(Pipelines, ShareStages) {
  PlanRequest request = makeDeepRequest(12);
  Candidate two;
  two.mesh.pipeline = 2;
  two.mesh.data = {4};
  two.mesh.statesData = true;
  two.zeroLevel = 1;
  two.microBatches = 4; // eight rows on four devices
  Candidate four = two;
  four.mesh.pipeline = 4;
  four.mesh.data = {2};
  four.microBatches = 8;
  auto share = [&](const PlanRequest &request) {
    Judges judges(request);
    EXPECT_NE(judges.getStagesName(two), "");
    return judges.getStagesName(two) == judges.getStagesName(four);
  };
  EXPECT_TRUE(share(request));
  two.zeroLevel = four.zeroLevel = 2;
  EXPECT_FALSE(share(request));
  // A stated part may store or exchange anything over dp.
  two.zeroLevel = four.zeroLevel = 1;
  request.stated.emplace();
  EXPECT_FALSE(share(request));
}

// A pipeline whose stages are known is predicted as it would be judged.
TEST(Pipelines, ArePredictedFromKnownStages) {
  PlanRequest request = makeDeepRequest(12);
  Judges judges(request);
  Candidate candidate;
  candidate.mesh.pipeline = 2;
  candidate.mesh.data = {4};
  candidate.mesh.statesData = true;
  candidate.microBatches = 4; // eight rows on four devices
  candidate.overlap = Overlap::Auto;
  JudgeTask two{candidate, 1e-3};
  candidate.mesh.pipeline = 4;
  candidate.mesh.data = {2};
  candidate.microBatches = 8;
  JudgeTask four{candidate, 1e-3};
  std::string stages = judges.getStagesName(candidate);
  EXPECT_FALSE(judges.predict(stages, four));
  cantFail(std::move(judges.judge(two).front()));
  std::optional<PlanFigures> predicted = judges.predict(stages, four);
  ASSERT_TRUE(predicted);
  PlanFigures judged = cantFail(std::move(judges.judge(four).front()));
  EXPECT_EQ(predicted->seconds, judged.seconds);
  EXPECT_EQ(predicted->memory.total(), judged.memory.total());
  EXPECT_EQ(judges.getNumCompiled(), 1);
}

} // namespace
