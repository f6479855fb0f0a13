//===- FewLayersTest.cpp - Deep programs judged by few layers -------------===//

#include "PlanRequests.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"
#include <limits>

using namespace heddle;

namespace {

Candidate makeDecided() {
  Candidate candidate;
  candidate.mesh.data = {4};
  candidate.mesh.statesData = true;
  candidate.decidesOperators = true;
  return candidate;
}

// Two layers fit with whole variables, and four do not. Both programs have the
// operators of the smaller one, so that their difference is that of two layers.
TEST(FewLayers, HaveTheSameOperators) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  request.cluster.levels[0].bandwidth = 1e7;
  Candidate standard = makeDecided();
  standard.decidesOperators = false;
  Judge ample(request);
  auto getNeed = [&](int64_t layers) {
    return cantFail(ample.judge(standard, layers)).figures.getNeededMemory();
  };
  request.memory = request.cluster.device.memory =
      (getNeed(2) + getNeed(4)) / 2;
  constexpr double kAny = std::numeric_limits<double>::infinity();
  Judge judge(request);
  PlanFigures all = cantFail(judge.extrapolate(makeDecided(), kAny));
  PlanFigures few = cantFail(judge.judge(makeDecided(), 2)).figures;
  EXPECT_GT(all.memory.parameters, few.memory.parameters);
  EXPECT_GT(all.memory.optimizerState, few.memory.optimizerState);
}

TEST(FewLayers, NeedNoNegativeMemory) {
  PlanFigures figures;
  EXPECT_FALSE(checkExtrapolated(figures));
  figures.memory.optimizerState = -1;
  EXPECT_EQ(llvm::toString(checkExtrapolated(figures)),
            "programs of few layers do not stand for all: by them, optimizer "
            "state would take -1 bytes");
}

// Prices are those of one candidate: the name leaves out the bytes below which
// values are computed again.
TEST(FewLayers, ArePricedByAllOfTheCandidate) {
  PlanRequest request = makeRequest(4, 4, {1, 64, 4, 64, 16});
  Candidate candidate = makeDecided();
  Judge judge(request);
  cantFail(judge.judge(candidate, 1));
  EXPECT_TRUE(judge.getExposure(candidate));
  candidate.recomputeBytes = 1;
  EXPECT_FALSE(judge.getExposure(candidate));
}

} // namespace
