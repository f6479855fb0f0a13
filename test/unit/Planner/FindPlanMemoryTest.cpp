//===- FindPlanMemoryTest.cpp - Searches where memory binds ---------------===//

#include "PlanRequests.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

// If nothing fits, judges all candidates that may need less memory than the
// judged ones, while work is left. Then the least memory that was found is the
// least of the space.
TEST(FindPlan, FindsTheLeastMemoryIfNothingFits) {
  PlanRequest request = makeRequest(2, 4, {2, 64, 4, 256, 32});
  request.pins.overlap = Overlap::None;
  request.pins.pipeline = request.pins.context = 1;
  request.pins.microBatches = 2;
  request.pins.subBatches = 1;
  request.pins.sequence = false;
  request.pins.recompute = RecomputeMode::None;
  request.memory = request.cluster.device.memory = 1000;
  PlanObserver observer;
  request.mostCompiled = 1;
  PlanReport little = cantFail(findPlan(request, observer));
  request.mostCompiled = 1000;
  PlanReport much = cantFail(findPlan(request, observer));
  EXPECT_FALSE(little.plan || much.plan);
  EXPECT_LT(little.memoryBound, little.figures.getNeededMemory());
  EXPECT_LE(much.memoryBound, much.figures.getNeededMemory());
  EXPECT_LE(little.memoryBound, much.memoryBound);
  EXPECT_LT(much.figures.getNeededMemory(), little.figures.getNeededMemory());
}

// If nothing fits, operators that own the largest tensors run in slices. The
// report counts them as candidates.
TEST(FindPlan, RunsOperatorsInSlicesIfNothingFits) {
  PlanRequest request = makeRequest(4, 4, {2, 512, 4, 256, 16});
  request.pins.data = 4;
  request.pins.zeroLevel = 3;
  request.pins.microBatches = request.pins.subBatches = 1;
  request.pins.recompute = RecomputeMode::None;
  request.pins.overlap = Overlap::None;
  PlanObserver observer;
  PlanReport whole = cantFail(findPlan(request, observer));
  ASSERT_TRUE(whole.plan);
  EXPECT_TRUE(whole.plan->splits.empty());
  EXPECT_EQ(whole.judged.size(), 1u);

  int64_t needed = whole.figures.getNeededMemory();
  request.memory = request.cluster.device.memory = needed - 1;
  PlanReport sliced = cantFail(findPlan(request, observer));
  ASSERT_TRUE(sliced.plan);
  EXPECT_FALSE(sliced.plan->splits.empty());
  EXPECT_LT(sliced.figures.getNeededMemory(), needed);
  EXPECT_GE(sliced.figures.seconds, whole.figures.seconds);
  int64_t skipped = 0;
  for (const SkippedCandidates &group : sliced.skipped)
    skipped += group.isCandidate ? group.count : 0;
  EXPECT_EQ(sliced.candidates, int64_t(sliced.judged.size()) + skipped);
  request.threads = 3;
  PlanReport again = cantFail(findPlan(request, observer));
  ASSERT_TRUE(again.plan);
  EXPECT_EQ(writePlan(*again.plan), writePlan(*sliced.plan));

  // The operators at the peak are those of the MLP: their weights are the
  // largest. They are cut alike, in all layers.
  for (const char *glob : {"h.*.mlp.c_fc", "h.*.mlp.c_proj"})
    EXPECT_TRUE(llvm::any_of(sliced.plan->splits, [&](const PlanSplit &split) {
      return split.glob == glob;
    })) << glob;
}

// Slices save what is alive of a few weights. They are not tried for a plan
// that needs more than twice the memory, if another plan fits.
TEST(FindPlan, CutsNoOperatorsOfPlansThatAreFarTooLarge) {
  PlanRequest request = makeRequest(2, 16, {4, 64, 4, 256, 256});
  Candidate candidate;
  candidate.mesh.data = {2};
  candidate.mesh.statesData = true;
  candidate.zeroLevel = 3;
  Judge judge(request);
  auto getNeed = [&](RecomputeMode mode) {
    candidate.recompute = mode;
    return cantFail(judge.judge(candidate, 4)).figures.getNeededMemory();
  };
  int64_t kept = getNeed(RecomputeMode::None);
  request.memory = request.cluster.device.memory = kept / 2 - 1;
  ASSERT_LT(getNeed(RecomputeMode::Layer), request.memory);
  request.pins.data = 2;
  request.pins.zeroLevel = 3;
  request.pins.microBatches = request.pins.subBatches = 1;
  request.pins.overlap = Overlap::None;
  request.mostCompiled = 2;
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  EXPECT_TRUE(report.plan.has_value());
  for (const JudgedCandidate &judged : report.judged)
    EXPECT_TRUE(judged.candidate.splits.empty()) << judged.candidate.getName();
}

// A candidate that is too slow with ample memory is not compiled for the
// available memory.
TEST(FindPlan, LeavesSlowCandidatesTheirMemory) {
  PlanRequest request = makeRequest(4, 32, {8, 256, 4, 256, 128});
  Candidate candidate;
  candidate.mesh.data = {4};
  candidate.mesh.statesData = true;
  candidate.overlap = Overlap::Auto;
  candidate.subBatches = 4;
  candidate.recompute = RecomputeMode::Layer;
  PlanFigures ample = cantFail(Judge(request).extrapolate(candidate, 0));
  request.memory = ample.getNeededMemory() - ample.memory.arena / 5;
  Judge judge(request);
  auto getNeed = [&](double limit) {
    return cantFail(judge.extrapolate(candidate, limit)).getNeededMemory();
  };
  EXPECT_EQ(getNeed(ample.seconds), ample.getNeededMemory());
  EXPECT_LT(getNeed(1.01 * ample.seconds), ample.getNeededMemory());
}

// Before the planner says that nothing fits, it compiles with all layers what
// may fit, as far as the limit of work allows.
TEST(FindPlan, CompilesAllLayersBeforeNothingFits) {
  PlanRequest request = makeRequest(2, 16, {6, 64, 4, 64, 16});
  request.pins.pipeline = 2;
  request.pins.subBatches = 1;
  request.pins.recompute = RecomputeMode::None;
  request.pins.overlap = Overlap::None;
  request.memory = request.cluster.device.memory = 3400000;
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  ASSERT_FALSE(report.plan.has_value());
  EXPECT_EQ(report.infeasiblePredictions, 0);
  int64_t numWhole = 0;
  for (const JudgedCandidate &judged : report.judged) {
    numWhole += judged.isWhole;
    if (!judged.isWhole)
      EXPECT_GT(judged.figures.getNeededMemory(), 2 * request.memory)
          << judged.candidate.getName();
  }
  EXPECT_GT(numWhole, 4);
}

// By programs of few layers that have many more parameters, all layers would
// have a negative number of them. Such candidates are compiled with all layers
// if nothing else fits. The others count by their bounds.
TEST(FindPlan, CompilesAllLayersIfFewDoNotStandForThem) {
  constexpr GptShape deep = {12, 32, 4, 64, 16};
  PlanRequest request = makeRequest(2, 4, deep);
  PlanRequest large = makeRequest(2, 4, {12, 32, 4, 4096, 16});
  request.program.make = [few = large.program.make, all = request.program.make](
                             MLIRContext &context, const ProgramSize &size) {
    return (size.layers.value_or(12) <= 2 ? few : all)(context, size);
  };
  request.pins.pipeline = request.pins.microBatches = 1;
  request.pins.subBatches = 1;
  request.pins.recompute = RecomputeMode::None;
  request.pins.overlap = Overlap::None;
  request.mostCompiled = 3;
  PlanObserver observer;
  PlanReport report = cantFail(findPlan(request, observer));
  ASSERT_TRUE(report.plan.has_value());
  EXPECT_FALSE(report.isExtrapolated);
  int64_t numUnknown = 0;
  for (const JudgedCandidate &judged : report.judged)
    if (judged.isUnknown) {
      ++numUnknown;
      EXPECT_LE(report.bound, judged.bound) << judged.candidate.getName();
    }
  EXPECT_GT(numUnknown, 0);
}

} // namespace
