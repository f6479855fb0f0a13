//===- BatchTest.cpp - Rows of a step by throughput -----------------------===//

#include "heddle/Planner/Batch.h"
#include "PlanRequests.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Only the rows are open: the space of each has one or two candidates.
PlanRequest makeQuickRequest(int64_t devices, int64_t rows) {
  PlanRequest request = makeRequest(devices, rows, {1, 512, 4, 256, 256});
  request.mostCompiled = 1;
  request.pins.data = devices;
  request.pins.zeroLevel = 0;
  request.pins.microBatches = request.pins.subBatches = 1;
  request.pins.recompute = RecomputeMode::None;
  request.pins.overlap = Overlap::None;
  request.compilesWinner = false;
  return request;
}

TEST(Batch, DoublesRowsWhileThroughputGrows) {
  PlanRequest request = makeQuickRequest(2, 2);
  PlanObserver observer;
  BatchChoice choice = cantFail(findBatch(request, observer));
  ASSERT_TRUE(choice.report.plan);
  ASSERT_GE(choice.tried.size(), 3u);
  EXPECT_EQ(choice.rows, choice.tried[choice.tried.size() - 2].rows);
  EXPECT_EQ(choice.report.plan->prediction->rows, choice.rows);
  for (size_t i = 0; i < choice.tried.size(); ++i) {
    EXPECT_EQ(choice.tried[i].rows, int64_t(2) << i);
    if (i == 0)
      continue;
    double gain =
        choice.tried[i].getThroughput() / choice.tried[i - 1].getThroughput();
    if (i + 1 < choice.tried.size())
      EXPECT_GE(gain, 1.02);
    else
      EXPECT_LT(gain, 1.02);
  }
}

// Four parts need four rows.
TEST(Batch, BeginsWhereThePinsArePossible) {
  PlanRequest request = makeQuickRequest(2, 2);
  request.pins.data.reset();
  request.pins.tensor = 2;
  request.pins.subBatches = 4;
  PlanObserver observer;
  BatchChoice choice = cantFail(findBatch(request, observer));
  ASSERT_TRUE(choice.report.plan);
  EXPECT_EQ(choice.tried.front().seconds, 0);
  EXPECT_GE(choice.rows, 4);
}

// Few layers predict 4.18 MB for the best candidate, and all need 4.16 MB.
TEST(Batch, CompilesAllLayersBeforeNothingFits) {
  PlanRequest request = makeRequest(2, 16, {6, 64, 4, 64, 16});
  request.pins.pipeline = 2;
  request.pins.microBatches = 8;
  request.pins.subBatches = 1;
  request.pins.recompute = RecomputeMode::None;
  request.pins.overlap = Overlap::None;
  request.memory = request.cluster.device.memory = 4170000;
  PlanObserver observer;
  BatchChoice choice = cantFail(findBatch(request, observer));
  ASSERT_TRUE(choice.report.plan);
  EXPECT_FALSE(choice.report.isExtrapolated);
  EXPECT_EQ(choice.rows, 16);
  EXPECT_EQ(choice.tried.front().seconds, choice.report.figures.seconds);
  EXPECT_EQ(choice.tried.back().seconds, 0);
}

TEST(Batch, KeepsTheBestRowsWhenInterrupted) {
  struct Impatient : PlanObserver {
    void plansBatch(int64_t rows) override { last = rows; }
    bool isInterrupted() override { return last == 4; }
    int64_t last = 0;
  } observer;
  PlanRequest request = makeQuickRequest(2, 2);
  request.compilesWinner = true;
  BatchChoice choice = cantFail(findBatch(request, observer));
  EXPECT_TRUE(choice.report.isInterrupted);
  EXPECT_TRUE(choice.report.plan);
  EXPECT_EQ(choice.tried.size(), 2u);
}

// The chosen rows are planned again, to compile the winner with all layers. If
// that is interrupted before anything is judged, the plan is the one that made
// these rows the best.
TEST(Batch, KeepsTheBestPlanWhenTheLastSearchIsInterrupted) {
  struct Impatient : PlanObserver {
    void plansBatch(int64_t rows) override {
      isLast = rows <= most;
      most = std::max(most, rows);
    }
    bool isInterrupted() override { return isLast; }
    bool isLast = false;
    int64_t most = 0;
  } observer;
  PlanRequest request = makeRequest(2, 2, {1, 64, 4, 64, 16});
  request.pins.data = 2;
  request.pins.microBatches = request.pins.subBatches = 1;
  request.pins.recompute = RecomputeMode::None;
  request.pins.overlap = Overlap::None;
  request.mostCompiled = 4;
  // Products take nearly all of the time, so the first doubling does not pay.
  request.cluster.device.peak["f32"] = 1e8;
  BatchChoice choice = cantFail(findBatch(request, observer));
  EXPECT_TRUE(choice.report.isInterrupted);
  ASSERT_TRUE(choice.report.plan);
  auto chosen = llvm::find_if(choice.tried, [&](const BatchPoint &point) {
    return point.rows == choice.rows;
  });
  EXPECT_EQ(choice.report.winner.getName(), chosen->candidate.getName());
  EXPECT_EQ(choice.report.figures.seconds, chosen->seconds);
}

} // namespace
