//===- TrafficTest.cpp - Least traffic of candidates ----------------------===//

#include "PlanRequests.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace heddle;

namespace {

// Devices behind the same slow link need the same parts of weights. Each
// receives a share of them and passes it on, so the link carries them once.
TEST(Bounds, CountPartsOnceForDevicesBehindALink) {
  PlanRequest request = makeRequest(4, 8, {2, 256, 4, 512, 64});
  slowDown(request, 1e8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate;
  candidate.mesh.data = {2};
  candidate.mesh.context = 2;
  candidate.mesh.attention = ContextParallelism::Gather;
  candidate.mesh.statesData = candidate.mesh.statesContext = true;
  candidate.overlap = Overlap::Auto;
  for (int64_t level : {0, 1, 2, 3})
    for (int64_t microBatches : {1, 2}) {
      candidate.zeroLevel = level;
      candidate.microBatches = microBatches;
      double bound = cantFail(model.rate(candidate)).seconds;
      double seconds = cantFail(judge.judge(candidate, 2)).figures.seconds;
      EXPECT_LE(bound, seconds) << candidate.getName();
      EXPECT_GT(bound, 0.7 * seconds) << candidate.getName();
    }
}

// Where the links between servers are faster than those within, exchanges
// between servers need not use the latter.
TEST(Bounds, HoldIfInnerLinksAreSlower) {
  PlanRequest request = makeRequest(8, 16, {1, 256, 2, 50257, 8});
  request.cluster.levels = {ClusterLevel{}, ClusterLevel{}};
  ClusterLevel &inner = request.cluster.levels[0];
  ClusterLevel &outer = request.cluster.levels[1];
  inner.name = "inner";
  inner.count = 2;
  inner.latency = 5e-6;
  inner.bandwidth = 1.8e9;
  outer.name = "outer";
  outer.count = 4;
  outer.latency = 1e-5;
  outer.bandwidth = 4.7e9;
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate;
  candidate.mesh.data = {4, 2};
  candidate.mesh.statesData = true;
  candidate.overlap = Overlap::Auto;
  for (int64_t level : {0, 1, 3}) {
    candidate.zeroLevel = level;
    double bound = cantFail(model.rate(candidate)).seconds;
    double seconds = cantFail(judge.judge(candidate, 1)).figures.seconds;
    EXPECT_LE(bound, seconds) << candidate.getName();
  }
}

// Devices of one server do not use the links between servers.
TEST(Bounds, LeaveOutLinksThatAreNotUsed) {
  PlanRequest request = makeRequest(2, 8, {2, 256, 4, 512, 64});
  slowDown(request, 1e9);
  Candidate candidate;
  candidate.mesh.tensor = {2};
  candidate.overlap = Overlap::Auto;
  ClusterLevel &inner = request.cluster.levels[0];
  inner.bandwidth = 1e8;
  inner.links = 1;
  Judge judge(request);
  double seconds = cantFail(judge.judge(candidate, 2)).figures.seconds;
  double alone = cantFail(makeBounds(request, judge).rate(candidate)).seconds;
  EXPECT_LE(alone, seconds);
  EXPECT_GT(alone, 0.7 * seconds);
  // Two servers use their own links, which are faster.
  request.devices = 4;
  Judge whole(request);
  candidate.mesh.tensor = {4};
  EXPECT_LT(cantFail(makeBounds(request, whole).rate(candidate)).seconds,
            0.5 * alone);
}

} // namespace
