//===- FewLayersTest.cpp - Deep programs judged by few layers -------------===//

#include "Judge/PinnedLayers.h"
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

// What the user states of a layer that few layers lack is in the plan of more,
// although the decided operators of a layer are copied to this one.
TEST(FewLayers, OverrideNothingThatIsStatedOfFurtherLayers) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  request.cluster.device.peak["f32"] = 1e9;
  Candidate candidate = makeDecided();
  candidate.mesh.data = {2};
  candidate.mesh.tensor = {2};
  const std::string factor = "f";
  auto decide = [&] {
    Judge judge(request);
    cantFail(judge.extrapolate(candidate, kAny));
    Plan plan = cantFail(judge.judge(candidate, 4)).plan;
    for (const char *name : {"h.3.mlp.c_fc", "h.3.mlp.c_proj"}) {
      const FactorEntry *rival = nullptr;
      const FactorEntry *entry =
          findPlanEntry(plan.operators, name, factor, &rival);
      EXPECT_TRUE(entry && entry->find(factor)->axes.empty()) << name;
      EXPECT_FALSE(rival) << name;
      const FactorEntry *free =
          findPlanEntry(plan.operators, "h.2" + std::string(name + 3), factor);
      EXPECT_TRUE(free && !free->find(factor)->axes.empty()) << name;
    }
    return plan;
  };
  // Layers 0 and 1 are alike, and their entries are those of "h.*".
  request.pins.replicated = {"h.3.mlp*"};
  decide();
  // The entries of layer 1 are copied. Each glob has one entry.
  request.stated.emplace();
  request.stated->operators = {{"h.0.mlp.c_fc", {{factor, {}, {}}}, {}}};
  request.stated->splits = {{"wte", "v", 2, {}, {}}};
  request.stated->priorities = {{"h.3.mlp*", 1, {}}};
  Plan plan = decide();
  EXPECT_EQ(plan.splits.size(), 1u);
  EXPECT_EQ(plan.priorities.size(), 1u);
}

// Globs have stars and question marks where layers have their number.
TEST(FewLayers, AreMatchedByGlobs) {
  for (const char *glob : {"h.1*", "*.1.mlp*", "?.1.mlp*"}) {
    PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
    request.pins.replicated = {glob};
    Candidate candidate = makeDecided();
    candidate.mesh.data = {2};
    candidate.mesh.tensor = {2};
    Judge judge(request);
    cantFail(judge.extrapolate(candidate, kAny));
    Plan plan = cantFail(judge.judge(candidate, 4)).plan;
    int64_t compared = 0;
    for (const FactorEntry &entry : plan.operators) {
      llvm::StringRef name = entry.glob;
      if (!name.consume_front("h.0."))
        continue;
      for (const FactorAssignment &assignment : entry.assignments)
        for (const char *layer : {"h.2.", "h.3."}) {
          const FactorEntry *other =
              findPlanEntry(plan.operators, layer + name.str(), assignment.key);
          ASSERT_TRUE(other) << glob << " " << layer << name.str();
          EXPECT_EQ(other->find(assignment.key)->axes, assignment.axes)
              << glob << " " << layer << name.str();
          ++compared;
        }
    }
    EXPECT_GT(compared, 0) << glob;
  }
}

/// Returns the last free one of two layers of the request's program.
std::string findFree(const PlanRequest &request) {
  Judge judge(request);
  mlir::ModuleOp few = cantFail(judge.getTrainingStep({4, 2}, 1));
  return PinnedLayers(few, request).findFree().str();
}

TEST(FewLayers, AreFreeIfGlobsNameAllAlike) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  EXPECT_EQ(findFree(request), "h.1.");
  request.pins.replicated = {"h.*.mlp*", "h.?.mlp*", "*", "h.5.mlp*", "wte"};
  EXPECT_EQ(findFree(request), "h.1.");
  request.pins.replicated = {"h.1*"};
  EXPECT_EQ(findFree(request), "h.0.");
  request.pins.replicated = {"*.0.mlp*"};
  EXPECT_EQ(findFree(request), "h.1.");
  request.pins.replicated = {"h.1.attn*", "h.0.mlp*"};
  EXPECT_EQ(findFree(request), "");
  // Of twelve layers, two have numbers of two digits.
  request = makeRequest(4, 4, {12, 64, 4, 64, 16});
  request.pins.replicated = {"h.?.mlp*"};
  EXPECT_EQ(findFree(request), "");
}

TEST(FewLayers, AreNotFreeIfAnythingIsStated) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  auto find = [&](auto add) {
    request.stated.emplace();
    add(*request.stated);
    return findFree(request);
  };
  EXPECT_EQ(find([](Plan &) {}), "h.1.");
  EXPECT_EQ(find([](Plan &plan) {
              plan.operators.push_back({"h.1.mlp*", {}, {}});
            }),
            "h.0.");
  EXPECT_EQ(find([](Plan &plan) {
              plan.storage.push_back({"h.1.mlp.c_fc.weight", {}, {}});
            }),
            "h.0.");
  EXPECT_EQ(find([](Plan &plan) {
              plan.pins.push_back({"h.1.mlp*", {}, {}});
            }),
            "h.0.");
  EXPECT_EQ(find([](Plan &plan) {
              plan.splits.push_back({"h.1.mlp.c_fc", "f", 2, {}, {}});
            }),
            "h.0.");
  EXPECT_EQ(find([](Plan &plan) {
              plan.priorities.push_back({"h.1.mlp*", 1, {}});
            }),
            "h.0.");
}

// Pins of all few layers do not hold for the others, which judge themselves.
TEST(FewLayers, DoNotStandForAllIfAllArePinned) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  request.pins.replicated = {"h.0.mlp*", "h.1.mlp*"};
  Candidate candidate = makeDecided();
  candidate.mesh.data = {2};
  candidate.mesh.tensor = {2};
  Judge judge(request), whole(request);
  PlanFigures figures = cantFail(judge.extrapolate(candidate, kAny));
  PlanFigures expected =
      cantFail(whole.judge(candidate, request.program.layers)).figures;
  EXPECT_EQ(figures.seconds, expected.seconds);
  EXPECT_EQ(figures.memory.total(), expected.memory.total());
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
