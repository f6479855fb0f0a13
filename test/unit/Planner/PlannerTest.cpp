//===- PlannerTest.cpp - The search for plans -----------------------------===//

#include "heddle/Planner/Planner.h"
#include "Bounds/Bounds.h"
#include "Candidates/Candidates.h"
#include "Judge/Judges.h"
#include "Judge/StagePieces.h"
#include "heddle/Cost/Cluster.h"
#include "heddle/Import/Import.h"
#include "heddle/InitAll.h"
#include "heddle/Planner/Front.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

/// A GPT of four layers and four heads.
PlanRequest makeRequest(int64_t devices, int64_t rows) {
  static DialectRegistry *registry = [] {
    auto *dialects = new DialectRegistry;
    registerAllDialects(*dialects);
    return dialects;
  }();
  PlanRequest request;
  request.program.dialects = registry;
  request.program.rows = rows;
  request.program.layers = 4;
  request.program.make = [](MLIRContext &context, const ProgramSize &size) {
    ImportOptions options;
    options.gpt = GptShape{4, 64, 4, 256, 32};
    options.sequence = 32;
    options.batch = size.rows;
    options.mostLayers = size.layers;
    return importModel(context, options);
  };
  request.cluster = cantFail(loadCluster("dgx-a100:1"));
  request.devices = devices;
  request.memory = request.cluster.device.memory;
  return request;
}

TEST(ProgramCounts, AreAffineInRowsAndLayers) {
  PlanRequest request = makeRequest(1, 8);
  Judge judge(request);
  auto count = [&](int64_t rows, int64_t layers) {
    return countProgram(cantFail(judge.getTrainingStep({rows, layers}, 2)),
                        request.cluster.device);
  };
  ProgramCounts counts[2][2] = {{count(1, 1), count(1, 2)},
                                {count(2, 1), count(2, 2)}};
  constexpr double sizes[2] = {1, 2};
  ProgramCounts expected = count(5, 4);
  ProgramCounts model = CountModel(counts, sizes, sizes).at(5, 4);
  EXPECT_DOUBLE_EQ(model.parameters, expected.parameters);
  EXPECT_DOUBLE_EQ(model.optimizerState, expected.optimizerState);
  EXPECT_DOUBLE_EQ(model.gradients, expected.gradients);
  EXPECT_NEAR(model.products, expected.products, 1e-12 * expected.products);
  EXPECT_DOUBLE_EQ(model.keptBytes, expected.keptBytes);
  EXPECT_DOUBLE_EQ(model.tensorSums, expected.tensorSums);
  EXPECT_DOUBLE_EQ(model.numTensorSums, expected.numTensorSums);
  EXPECT_DOUBLE_EQ(model.updateBytes, expected.updateBytes);
  // Parameters have AdamW's two moments and a gradient.
  EXPECT_DOUBLE_EQ(expected.optimizerState, 2 * expected.parameters);
  EXPECT_DOUBLE_EQ(expected.gradients, expected.parameters);
  // Megatron-LM's two sums in each direction of a layer, one of the embedding,
  // and one of the head's gradient.
  EXPECT_DOUBLE_EQ(expected.numTensorSums, 4 * 4 + 2);
}

TEST(Candidates, Divide) {
  PlanRequest request = makeRequest(8, 8);
  Judge judge(request);
  SplitLimits limits =
      getSplitLimits(cantFail(judge.getTrainingStep({1, 1}, 2)));
  EXPECT_TRUE(limits.canSplitTensor(4));
  EXPECT_FALSE(limits.canSplitTensor(8)); // four heads
  SearchSpace space = enumerateCandidates(request, limits);
  std::set<std::string> names;
  for (const Candidate &candidate : space.candidates) {
    EXPECT_TRUE(names.insert(candidate.getName()).second)
        << candidate.getName() << " twice";
    EXPECT_EQ(candidate.mesh.getNumDevices(), 8);
    int64_t data = 1;
    for (int64_t size : candidate.mesh.data)
      data *= size;
    EXPECT_EQ(request.program.rows / candidate.microBatches % data, 0);
  }
  EXPECT_TRUE(names.count("--mesh dp=2,tp=4 --zero 1 --sequence "
                          "--micro-batches 2 --overlap auto"));
}

TEST(Candidates, AgreeWithPins) {
  PlanRequest request = makeRequest(8, 8);
  request.pins.tensor = 2;
  request.pins.zeroLevel = 3;
  request.pins.recompute = RecomputeMode::Layer;
  Judge judge(request);
  SplitLimits limits =
      getSplitLimits(cantFail(judge.getTrainingStep({1, 1}, 2)));
  SearchSpace space = enumerateCandidates(request, limits);
  EXPECT_FALSE(space.candidates.empty());
  for (const Candidate &candidate : space.candidates) {
    EXPECT_EQ(candidate.mesh.tensor.front(), 2);
    EXPECT_EQ(candidate.zeroLevel, 3);
    EXPECT_EQ(candidate.recompute, RecomputeMode::Layer);
  }
}

BoundModel makeBounds(const PlanRequest &request, Judge &judge) {
  auto count = [&](int64_t rows, int64_t layers) {
    ProgramCounts counts =
        countProgram(cantFail(judge.getTrainingStep({rows, layers}, 2)),
                     request.cluster.device);
    counts.computing = cantFail(judge.measureComputing({rows, layers}));
    return counts;
  };
  ProgramCounts counts[2][2] = {{count(1, 1), count(1, 2)},
                                {count(2, 1), count(2, 2)}};
  constexpr double sizes[2] = {1, 2};
  return BoundModel(request, CountModel(counts, sizes, sizes));
}

// No candidate takes less time or state than its bounds.
TEST(Bounds, HoldForSimulatedPrograms) {
  PlanRequest request = makeRequest(4, 8);
  request.training.bf16 = true;
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  SplitLimits limits =
      getSplitLimits(cantFail(judge.getTrainingStep({1, 1}, 2)));
  SearchSpace space = enumerateCandidates(request, limits);
  // A few, with a step that is prime to the sizes of the inner loops, and more
  // of those that compute again.
  for (size_t i = 0; i < space.candidates.size(); ++i) {
    const Candidate &candidate = space.candidates[i];
    if (i % (candidate.recompute == RecomputeMode::None ? 67 : 47) != 0)
      continue;
    CandidateBounds bounds = cantFail(model.rate(candidate));
    llvm::Expected<Judgement> judged = judge.judge(candidate, 4);
    ASSERT_TRUE(bool(judged))
        << candidate.getName() << ": " << llvm::toString(judged.takeError());
    EXPECT_LE(bounds.seconds, judged->figures.seconds) << candidate.getName();
    EXPECT_GT(bounds.seconds, 0);
    const DeviceMemoryPlan &memory = judged->figures.memory;
    EXPECT_LE(bounds.kept, memory.arena + memory.slots) << candidate.getName();
    EXPECT_LE(bounds.state,
              memory.parameters + memory.optimizerState + memory.gradients)
        << candidate.getName();
  }
}

// Only what must be computed again makes a bound greater.
TEST(Bounds, AddOnlyWhatEveryRecomputationRepeats) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto rate = [&](int64_t context, RecomputeMode mode) {
    Candidate candidate;
    candidate.mesh.data = {4 / context};
    candidate.mesh.statesData = true;
    candidate.mesh.context = context;
    candidate.mesh.statesContext = context > 1;
    candidate.overlap = Overlap::None;
    candidate.recompute = mode;
    return cantFail(model.rate(candidate)).seconds;
  };
  for (int64_t context : {1, 2}) {
    double none = rate(context, RecomputeMode::None);
    EXPECT_EQ(rate(context, RecomputeMode::Optimal), none);
    // What a ring has received may stay.
    for (RecomputeMode mode :
         {RecomputeMode::Layer, RecomputeMode::Communication}) {
      if (context > 1)
        EXPECT_EQ(rate(context, mode), none);
      else
        EXPECT_GT(rate(context, mode), none);
    }
  }
}

// Work that does not grow with the rows is done for each micro-batch, unless
// gradients are stored in parts.
TEST(Bounds, RepeatFixedWorkForEachMicroBatch) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto rate = [&](int64_t microBatches, int64_t zeroLevel) {
    Candidate candidate;
    candidate.mesh.data = {4};
    candidate.mesh.statesData = true;
    candidate.overlap = Overlap::Auto;
    candidate.microBatches = microBatches;
    candidate.zeroLevel = zeroLevel;
    return cantFail(model.rate(candidate)).seconds;
  };
  // In this small program, launches are most of it.
  EXPECT_GT(rate(2, 1), 1.5 * rate(1, 1));
  EXPECT_GT(rate(2, 1), rate(2, 2));
}

// The products whose sums stay are known of standard plans alone.
TEST(Bounds, RepeatNothingIfOperatorsAreSplitOtherwise) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto rate = [&](RecomputeMode mode, bool decides) {
    Candidate candidate;
    candidate.mesh.tensor = {4};
    candidate.overlap = Overlap::None;
    candidate.recompute = mode;
    candidate.decidesOperators = decides;
    return cantFail(model.rate(candidate)).seconds;
  };
  auto adds = [&](RecomputeMode mode, bool decides = false) {
    return rate(mode, decides) > rate(RecomputeMode::None, decides);
  };
  EXPECT_TRUE(adds(RecomputeMode::Communication));
  EXPECT_FALSE(adds(RecomputeMode::Communication, /*decides=*/true));
  request.stated.emplace();
  EXPECT_TRUE(adds(RecomputeMode::Communication));
  request.stated->operators.push_back({"h.*.mlp.c_fc", {}, {}});
  EXPECT_FALSE(adds(RecomputeMode::Communication));
  EXPECT_TRUE(adds(RecomputeMode::Layer));
}

// The first stage may have one layer if its device is slow, and none if the
// user states stages.
TEST(Bounds, KeepWhatTheSmallestFirstStageDoes) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate;
  candidate.mesh.pipeline = 2;
  candidate.mesh.data = {2};
  candidate.microBatches = 4;
  auto getKept = [&] { return cantFail(model.rate(candidate)).kept; };
  double kept = getKept(); // of two of four layers
  EXPECT_GT(kept, 0);
  request.cluster.groups = {{request.cluster.device, 4},
                            {request.cluster.device, 4}};
  EXPECT_DOUBLE_EQ(getKept(), kept / 2);
  request.stated.emplace();
  request.stated->numStages = 2;
  EXPECT_EQ(getKept(), 0);
}

/// A GPT of many layers, whose head takes as much as a layer or two.
PlanRequest makeDeepRequest(int64_t layers) {
  PlanRequest request = makeRequest(8, 32);
  request.program.layers = layers;
  request.program.make = [layers](MLIRContext &context,
                                  const ProgramSize &size) {
    ImportOptions options;
    options.gpt = GptShape{layers, 256, 4, 2048, 128};
    options.sequence = 128;
    options.batch = size.rows;
    options.mostLayers = size.layers;
    return importModel(context, options);
  };
  return request;
}

// Two pipelines of two stages say what a deeper one takes.
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
    JudgeTask task{candidate, cantFail(bounds.rate(candidate)).update *
                                  double(c.pipeline)};
    PlanFigures few = cantFail(std::move(judges.judge(task).front()));
    Judgement whole =
        cantFail(judges.first().judge(task.candidate, *request.program.layers));
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
  // Of 8 layers on a device of 300 bytes, and 4 on one of 100, the latter has
  // less left.
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

TEST(FindPlan, AnswersAlikeOnAnyNumberOfThreads) {
  PlanRequest request = makeRequest(4, 8);
  request.mostCompiled = 4;
  PlanObserver observer;
  PlanReport one = cantFail(findPlan(request, observer));
  request.threads = 3;
  PlanReport three = cantFail(findPlan(request, observer));
  ASSERT_TRUE(one.plan && three.plan);
  EXPECT_EQ(writePlan(*one.plan), writePlan(*three.plan));
  ASSERT_EQ(one.judged.size(), three.judged.size());
  for (size_t i = 0; i < one.judged.size(); ++i)
    EXPECT_EQ(one.judged[i].candidate.getName(),
              three.judged[i].candidate.getName());
  EXPECT_LE(one.bound, one.figures.seconds);
}

TEST(FindPlan, KeepsTheBestPlanWhenInterrupted) {
  struct Impatient : PlanObserver {
    void progress(const PlanProgress &progress) override {
      judged = progress.judged;
    }
    bool isInterrupted() override { return judged > 0; }
    int64_t judged = 0;
  } observer;
  PlanRequest request = makeRequest(4, 8);
  PlanReport report = cantFail(findPlan(request, observer));
  EXPECT_TRUE(report.isInterrupted);
  EXPECT_TRUE(report.plan.has_value());
  EXPECT_EQ(report.judged.size(), 4u);
}

// Few layers prove nothing, so candidates of which no more were compiled count
// by their bounds.
TEST(FindPlan, BoundsWhatWasNotCompiledWhole) {
  PlanRequest request = makeRequest(2, 4);
  request.program.layers = 6;
  request.program.make = [](MLIRContext &context, const ProgramSize &size) {
    ImportOptions options;
    options.gpt = GptShape{6, 64, 4, 256, 32};
    options.sequence = 32;
    options.batch = size.rows;
    options.mostLayers = size.layers;
    return importModel(context, options);
  };
  request.mostCompiled = 8;
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  ASSERT_TRUE(report.plan.has_value());
  EXPECT_GT(report.bound, 0);
  int64_t numWhole = 0;
  for (const JudgedCandidate &judged : report.judged) {
    numWhole += judged.isWhole;
    if (judged.fits)
      EXPECT_LE(report.bound,
                judged.isWhole ? judged.figures.seconds : judged.bound)
          << judged.candidate.getName();
  }
  EXPECT_GE(numWhole, 1);
  EXPECT_LT(numWhole, int64_t(report.judged.size()));
}

/// A program whose products take most of the time of a step on two devices, so
/// that bounds are near.
PlanRequest makeLargeRequest() {
  PlanRequest request = makeRequest(2, 8);
  request.program.layers = 2;
  request.program.make = [](MLIRContext &context, const ProgramSize &size) {
    ImportOptions options;
    options.gpt = GptShape{2, 4096, 4, 256, 512};
    options.sequence = 512;
    options.batch = size.rows;
    options.mostLayers = size.layers;
    return importModel(context, options);
  };
  request.mostCompiled = 12;
  request.pins.pipeline = 1;
  return request;
}

int64_t countDecided(const PlanReport &report) {
  return llvm::count_if(report.judged, [](const JudgedCandidate &judged) {
    return judged.candidate.decidesOperators;
  });
}

// The search ends when nothing may be better by more than simulations tell, and
// says so.
TEST(FindPlan, EndsWithinOnePercentOfTheBound) {
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(makeLargeRequest(), observer));
  ASSERT_TRUE(report.plan.has_value());
  EXPECT_GE(report.bound, 0.99 * report.figures.seconds);
  EXPECT_LT(report.compiled, 12);
  EXPECT_EQ(countDecided(report), 0);
  int64_t candidates = int64_t(report.judged.size()), near = 0;
  for (const SkippedCandidates &skipped : report.skipped) {
    candidates += skipped.isCandidate ? skipped.count : 0;
    if (skipped.reason ==
        "the lower bound of the time is within 1 % of the best plan's")
      near = skipped.count;
    EXPECT_EQ(skipped.reason.find("not compiled"), std::string::npos);
  }
  EXPECT_EQ(candidates, report.candidates);
  EXPECT_GT(near, 0);
}

// Over slow links, standard plans are near their bounds. Operators that are
// decided one by one are not bound by these, and are better.
TEST(FindPlan, DecidesOperatorsUnlessTheirBoundIsNear) {
  PlanObserver observer;
  PlanRequest request = makeLargeRequest();
  request.cluster.levels[0].bandwidth /= 300;
  PlanReport report = cantFail(findPlan(request, observer));
  ASSERT_TRUE(report.plan.has_value());
  EXPECT_LT(report.compiled, 12);
  EXPECT_GE(countDecided(report), 1);
  EXPECT_TRUE(report.winner.decidesOperators);
  for (const JudgedCandidate &judged : report.judged)
    EXPECT_EQ(judged.figures.exposure.has_value(),
              judged.candidate.decidesOperators && judged.error.empty());
}

// If nothing is hidden, all of communication is exposed, and prices expect what
// is simulated. If some is, operators are decided again until the plan stays.
TEST(FindPlan, PricesCommunicationAsExposed) {
  PlanObserver observer;
  PlanRequest request = makeLargeRequest();
  request.cluster.levels[0].bandwidth /= 30;
  request.mostCompiled = 4;
  for (Overlap overlap : {Overlap::None, Overlap::Auto}) {
    request.pins.overlap = overlap;
    PlanReport report = cantFail(findPlan(request, observer));
    ASSERT_GE(countDecided(report), 1);
    bool communicates = false;
    for (const JudgedCandidate &judged : report.judged) {
      if (!judged.candidate.decidesOperators || !judged.error.empty())
        continue;
      const ExposurePrediction &exposure = *judged.figures.exposure;
      SCOPED_TRACE(judged.candidate.getName());
      // Some plans keep every operator whole and communicate nothing.
      communicates |= exposure.predicted > 0;
      EXPECT_LE(exposure.simulated, exposure.step);
      EXPECT_GE(exposure.rounds, 2);
      EXPECT_LE(exposure.rounds, 5);
      if (overlap != Overlap::None)
        continue;
      EXPECT_TRUE(exposure.isFixed);
      EXPECT_EQ(exposure.predicted > 0, exposure.simulated > 0);
      EXPECT_LT(std::abs(exposure.getError()), 0.05);
    }
    EXPECT_TRUE(communicates);
  }
}

TEST(FindPlan, SaysWhatIsLeastIfNothingFits) {
  PlanRequest request = makeRequest(2, 2);
  request.memory = 1000;
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  EXPECT_FALSE(report.plan.has_value());
  EXPECT_GT(report.figures.memory.total(), request.memory);
  ASSERT_EQ(report.consumers.size(), 3u);
  EXPECT_GE(report.consumers[0].second, report.consumers[1].second);
}

TEST(FindPlan, RefusesRequests) {
  PlanObserver observer;
  PlanRequest request = makeRequest(9, 9);
  EXPECT_EQ(llvm::toString(findPlan(request, observer).takeError()),
            "expected 1 to 8 devices, which the cluster 'dgx-a100' has, got 9");
  request = makeRequest(4, 4);
  request.pins.tensor = 3;
  EXPECT_EQ(llvm::toString(findPlan(request, observer).takeError()),
            "no mesh of 4 devices divides the program and agrees with the "
            "pins: tp=3 does not divide the 4 heads (the nearest that can be: "
            "tp=2, tp=4)");
}

TEST(Pins, AreRead) {
  PlanPins pins;
  EXPECT_FALSE(parsePin("tp=4", pins));
  EXPECT_FALSE(parsePin("sequence=off", pins));
  EXPECT_FALSE(parsePin("recompute=layer", pins));
  EXPECT_FALSE(parsePin("h.*.mlp*=replicated", pins));
  EXPECT_EQ(pins.tensor, 4);
  EXPECT_EQ(pins.sequence, false);
  EXPECT_EQ(pins.recompute, RecomputeMode::Layer);
  ASSERT_EQ(pins.replicated.size(), 1u);
  EXPECT_EQ(pins.replicated[0], "h.*.mlp*");
  for (const char *bad :
       {"tp", "tp=", "=4", "tp=0", "tp=x", "zero=4", "sequence=yes",
        "recompute=all", "overlap=fast", "h.*=gathered"})
    EXPECT_TRUE(llvm::toString(parsePin(bad, pins)).find("expected") == 0)
        << bad;
}

} // namespace
