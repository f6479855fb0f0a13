//===- FindPlanTest.cpp - The search for plans ----------------------------===//

#include "PlanRequests.h"
#include "heddle/Cost/Cluster.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"
#include <limits>
#include <set>

using namespace mlir;
using namespace heddle;

namespace {

/// Two layers, for tests in which their number does not matter.
constexpr GptShape small = {2, 64, 4, 256, 32};

TEST(FindPlan, AnswersAlikeOnAnyNumberOfThreads) {
  PlanRequest request = makeRequest(4, 4, small);
  request.pins.overlap = Overlap::None;
  request.mostCompiled = 2;
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
  PlanRequest request = makeRequest(4, 4, small);
  PlanReport report = cantFail(findPlan(request, observer));
  EXPECT_TRUE(report.isInterrupted);
  EXPECT_TRUE(report.plan.has_value());
  EXPECT_EQ(report.judged.size(), 4u);
}

// A schedule that adapts to the available memory may fit where no stated
// schedule does. The plan states the choices of this schedule.
TEST(FindPlan, LeavesSchedulesOpen) {
  PlanRequest request = makeRequest(2, 8, {3, 64, 4, 256, 64});
  request.cluster.levels[0].bandwidth = 2e7;
  request.cluster.device.peak["f32"] = 3e9;
  request.pins.pipeline = request.pins.microBatches = 1;
  request.pins.data = 1;
  request.pins.tensor = 2;
  request.pins.sequence = false;
  request.pins.overlap = Overlap::Auto;
  PlanObserver observer;
  request.mostCompiled = 1;
  PlanReport ample = cantFail(findPlan(request, observer));
  ASSERT_TRUE(ample.plan.has_value());
  request.memory = request.cluster.device.memory =
      int64_t(0.5 * double(ample.figures.getNeededMemory()));
  PlanReport report = cantFail(findPlan(request, observer));
  ASSERT_TRUE(report.plan.has_value());
  EXPECT_TRUE(report.winner.leavesSchedule && report.winner.schedule);
  EXPECT_LE(report.figures.getNeededMemory(), request.memory);
  EXPECT_EQ(report.plan->subBatches, report.winner.schedule->subBatches);
  EXPECT_EQ(report.plan->recompute, report.winner.schedule->recompute);
  EXPECT_NE(report.plan->recompute, RecomputeMode::None);
}

// Few layers prove nothing. The report counts the candidates that only they
// predict to be slower than the bound.
TEST(FindPlan, BoundsWhatWasNotCompiledWhole) {
  PlanRequest request = makeRequest(2, 2, {6, 64, 4, 256, 32});
  request.pins.pipeline = 1;
  request.pins.overlap = Overlap::None;
  request.mostCompiled = 8;
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  ASSERT_TRUE(report.plan.has_value());
  EXPECT_GT(report.bound, 0);
  int64_t numWhole = 0, numPredicted = 0;
  for (const JudgedCandidate &judged : report.judged) {
    numWhole += judged.isWhole;
    numPredicted += !judged.isWhole && judged.bound < report.bound;
    if (judged.fits)
      EXPECT_LE(report.bound, judged.figures.seconds)
          << judged.candidate.getName();
  }
  EXPECT_GE(report.boundPredictions, numPredicted);
  EXPECT_GE(numWhole, 1);
  EXPECT_LT(numWhole, int64_t(report.judged.size()));
}

/// A program whose products take most of the time of a step on two devices, so
/// that bounds are near.
PlanRequest makeLargeRequest() {
  PlanRequest request = makeRequest(2, 8, {2, 4096, 4, 256, 512});
  request.mostCompiled = 12;
  request.pins.pipeline = 1;
  return request;
}

int64_t countDecided(const PlanReport &report) {
  return llvm::count_if(report.judged, [](const JudgedCandidate &judged) {
    return judged.candidate.decidesOperators;
  });
}

/// Expects that the operators of a second mesh were decided only if that gained
/// time for the first.
void expectDecidedWhilePaying(const PlanReport &report) {
  double standard = std::numeric_limits<double>::infinity();
  int64_t count = 0;
  for (const JudgedCandidate &judged : report.judged) {
    if (judged.candidate.decidesOperators && judged.error.empty()) {
      EXPECT_TRUE(count == 0 || judged.figures.seconds < standard ||
                  report.winner.decidesOperators);
      ++count;
    } else if (judged.fits) {
      standard = std::min(standard, judged.figures.seconds);
    }
  }
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
    EXPECT_EQ(skipped.reason.find("compiled stages"), std::string::npos);
  }
  EXPECT_EQ(candidates, report.candidates);
  EXPECT_GT(near, 0);
}

// After two rounds that find nothing better, estimates are trusted.
TEST(FindPlan, EndsWhenExploringFindsNothing) {
  PlanRequest request = makeRequest(4, 16, {2, 1024, 4, 256, 64});
  request.pins.overlap = Overlap::None;
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  EXPECT_LT(report.compiled, request.mostCompiled);
  EXPECT_TRUE(llvm::any_of(report.skipped, [](const SkippedCandidates &left) {
    return StringRef(left.reason).contains("the last rounds found nothing");
  }));
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
  for (const JudgedCandidate &judged : report.judged) {
    EXPECT_EQ(judged.figures.exposure.has_value(),
              judged.candidate.decidesOperators && judged.error.empty());
    EXPECT_GT(judged.bound, 0) << judged.candidate.getName();
  }
}

// If no communication is hidden, all of it is exposed, and the prices predict
// the simulation. If some is hidden, operators are decided again until the plan
// stays.
TEST(FindPlan, PricesCommunicationAsExposed) {
  PlanObserver observer;
  PlanRequest request = makeLargeRequest();
  request.cluster.levels[0].bandwidth /= 30;
  request.mostCompiled = 2;
  for (Overlap overlap : {Overlap::None, Overlap::Auto}) {
    request.pins.overlap = overlap;
    PlanReport report = cantFail(findPlan(request, observer));
    ASSERT_GE(countDecided(report), 1);
    expectDecidedWhilePaying(report);
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

// The operators of the best plan are decided one by one in its stages, too.
TEST(FindPlan, DecidesOperatorsOfStages) {
  PlanObserver observer;
  for (int64_t layers : {2, 5}) { // as a whole, and by few layers
    SCOPED_TRACE(layers);
    PlanRequest request = makeRequest(4, 8, {layers, 1024, 4, 256, 128});
    request.cluster.levels[0].bandwidth /= 100;
    request.mostCompiled = 6;
    request.pins.pipeline = 2;
    request.pins.overlap = Overlap::None;
    PlanReport report = cantFail(findPlan(request, observer));
    EXPECT_EQ(countDecided(report), 1);
    for (const JudgedCandidate &judged : report.judged) {
      if (!judged.candidate.decidesOperators)
        continue;
      EXPECT_EQ(judged.error, "");
      EXPECT_TRUE(judged.figures.exposure.has_value());
      Judge judge(request);
      if (judge.extrapolates(judged.candidate))
        cantFail(judge.measureStages(judged.candidate));
      Plan plan = cantFail(judge.plan(judged.candidate));
      EXPECT_EQ(plan.numStages, judged.candidate.getNumStages());
      EXPECT_FALSE(plan.operators.empty());
      // What few layers promise, all of them keep.
      Judgement whole = cantFail(judge.judge(judged.candidate, layers));
      EXPECT_NEAR(judged.figures.seconds, whole.figures.seconds,
                  0.05 * whole.figures.seconds);
    }
  }
}

// Over slow links, every standard plan of a mesh takes longer than a pipeline.
// Operators that avoid these links are faster. With less memory, a mesh whose
// standard plan is expected to fit is decided.
TEST(FindPlan, DecidesOperatorsOfAMeshWithSlowLinks) {
  PlanRequest request = makeRequest(4, 16, {12, 256, 4, 8192, 128});
  slowDown(request, 1e8);
  // With 250 MiB, two micro-batches run the layers again. With 205 MiB, they do
  // so for another mesh of the same devices.
  constexpr int64_t kMebi = int64_t(1) << 20;
  for (auto [memory, times] : {std::pair(request.memory, 10),
                               {205 * kMebi, 9},
                               {250 * kMebi, 9},
                               {300 * kMebi, 10}}) {
    request.memory = request.cluster.device.memory = memory;
    PlanObserver observer;
    PlanReport report = cantFail(findPlan(request, observer));
    ASSERT_TRUE(report.plan);
    double fastest = std::numeric_limits<double>::infinity();
    for (const JudgedCandidate &judged : report.judged)
      if (judged.candidate.mesh.pipeline > 1)
        fastest = std::min(fastest, judged.figures.seconds);
    EXPECT_LT(report.figures.seconds, fastest / times) << memory;
  }
}

// A pipeline splits equal layers alike in all stages, so its decided operators
// tell nothing of other meshes. Two of these are decided although a pipeline is
// best.
TEST(FindPlan, DecidesOperatorsBesideAPipeline) {
  PlanRequest request = makeRequest(4, 16, {2, 64, 4, 512, 16});
  request.cluster = cantFail(parseCluster(
      R"({"version": 1, "name": "slow", "device": {"kind": "core", "memory":
          2000000000, "memory_bandwidth": 6e9, "launch": 1e-6, "peak": {"f32":
          1e11}}, "levels": [{"name": "network", "count": 4, "latency": 1e-6,
          "bandwidth": 2e9}]})",
      "slow"));
  request.memory = request.cluster.device.memory;
  request.mostCompiled = 6;
  request.pins.microBatches = 2;
  request.pins.subBatches = 1;
  request.pins.recompute = RecomputeMode::None;
  request.pins.overlap = Overlap::None;
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  std::vector<int64_t> stages; // of the decided candidates, in their order
  for (const JudgedCandidate &judged : report.judged)
    if (judged.candidate.decidesOperators)
      stages.push_back(judged.candidate.mesh.pipeline);
  EXPECT_EQ(stages, (std::vector<int64_t>{2, 1, 1}));
}

// A limit of work that is too large to be multiplied is no limit.
TEST(FindPlan, WorksAsMuchAsItMay) {
  PlanRequest request = makeRequest(2, 2, small);
  request.pins.overlap = Overlap::None;
  request.pins.data = 2;
  request.pins.microBatches = request.pins.subBatches = 1;
  request.pins.recompute = RecomputeMode::None;
  request.mostCompiled = std::numeric_limits<int64_t>::max();
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  EXPECT_GT(report.judged.size(), 1u);
}

// Returns a request for few devices of little memory, in the program's order.
PlanRequest makeTightRequest(int64_t devices, int64_t rows, int64_t memory,
                             int64_t mostCompiled, RecomputeMode recompute) {
  PlanRequest request = makeRequest(devices, rows, {9, 32, 4, 32, 16});
  request.pins.pipeline = request.pins.context = request.pins.subBatches = 1;
  request.pins.recompute = recompute;
  request.pins.overlap = Overlap::None;
  request.memory = request.cluster.device.memory = memory;
  request.mostCompiled = mostCompiled;
  request.compilesWinner = false;
  return request;
}

// Slices and further limits of recomputation use up no work. So work is left
// for a lower limit of memory, however many of them were judged before.
TEST(FindPlan, LimitsTheWorkOfRoundsAlone) {
  PlanRequest request =
      makeTightRequest(2, 4, 1030000, 1, RecomputeMode::Optimal);
  size_t numJudged = 0;
  auto next = [&](const PlanReport &report) -> std::optional<int64_t> {
    if (numJudged != 0) {
      EXPECT_GT(report.judged.size(), numJudged);
      return std::nullopt;
    }
    numJudged = report.judged.size();
    // A further limit, slices, and a mesh that was only judged for slices.
    EXPECT_EQ(numJudged, 4u);
    std::set<std::string> standard;
    for (const JudgedCandidate &judged : report.judged) {
      Candidate candidate = judged.candidate;
      candidate.recomputeBytes = 0;
      if (candidate.splits.empty())
        standard.insert(candidate.getKey());
    }
    EXPECT_EQ(standard.size(), 2u);
    return request.memory - 100;
  };
  PlanObserver observer;
  cantFail(findPlans(request, observer, next));
}

// Candidates that turn out to need too much memory count half: of the first
// four, only one fits, so a fifth one is judged.
TEST(FindPlan, SpendsLittleWorkOnWhatIsTooLarge) {
  PlanRequest request = makeTightRequest(4, 8, 800000, 4, RecomputeMode::None);
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  EXPECT_EQ(
      llvm::count_if(report.judged,
                     [](const JudgedCandidate &judged) { return judged.fits; }),
      1);
  EXPECT_EQ(report.judged.size(), 5u);
}

// A limit of recomputation is not lowered if all that can be is computed again.
TEST(FindPlan, LowersNoLimitInVain) {
  PlanRequest request =
      makeTightRequest(2, 4, 976000, 1, RecomputeMode::Optimal);
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  EXPECT_FALSE(report.judged.empty());
  std::set<std::string> seen;
  for (const JudgedCandidate &judged : report.judged) {
    EXPECT_GT(judged.figures.liveBytes, judged.candidate.recomputeBytes);
    Candidate candidate = judged.candidate;
    candidate.recomputeBytes = 0;
    EXPECT_TRUE(seen.insert(candidate.getKey()).second) << candidate.getName();
  }
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
