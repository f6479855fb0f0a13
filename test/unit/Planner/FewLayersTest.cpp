//===- FewLayersTest.cpp - Deep programs judged by few layers -------------===//

#include "PlanRequests.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"
#include <limits>

using namespace heddle;

namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();

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
  Judge judge(request);
  PlanFigures all = cantFail(judge.extrapolate(makeDecided(), kAny));
  PlanFigures few = cantFail(judge.judge(makeDecided(), 2)).figures;
  EXPECT_GT(all.memory.parameters, few.memory.parameters);
  EXPECT_GT(all.memory.optimizerState, few.memory.optimizerState);
}

// The layers that few layers lack are like the last one that is free.
TEST(FewLayers, AddLayersWithoutPins) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  request.pins.replicated = {"h.1.mlp*"};
  Candidate candidate = makeDecided();
  candidate.mesh.data = {2};
  candidate.mesh.tensor = {2};
  Judge judge(request);
  cantFail(judge.extrapolate(candidate, kAny));
  Plan plan = cantFail(judge.judge(candidate, 4)).plan;
  const char *const kFactor = "f";
  auto find = [&](llvm::StringRef name) {
    return findPlanEntry(plan.operators, name, std::string(kFactor));
  };
  const FactorEntry *pinned = find("h.1.mlp.c_fc");
  ASSERT_TRUE(pinned);
  EXPECT_TRUE(pinned->find(kFactor)->axes.empty());
  const FactorEntry *first = find("h.0.mlp.c_fc");
  ASSERT_TRUE(first);
  for (const char *name : {"h.2.mlp.c_fc", "h.3.mlp.c_fc"}) {
    const FactorEntry *entry = find(name);
    ASSERT_TRUE(entry) << name;
    EXPECT_EQ(entry->find(kFactor)->axes, first->find(kFactor)->axes);
    EXPECT_NE(entry->glob, pinned->glob);
    EXPECT_TRUE(findPlanEntry(plan.operators, name, std::string("b")));
  }
  EXPECT_EQ(
      llvm::count_if(plan.operators,
                     [](const FactorEntry &entry) {
                       return llvm::StringRef(entry.glob).ends_with(".mlp*");
                     }),
      1);
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
