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

// Each further layer of a program of four layers counts for many, so a pin of
// one of them counts like a pin of a layer that this program lacks.
TEST(FewLayers, CountNoPinOfOneFurtherLayer) {
  Candidate candidate = makeDecided();
  candidate.mesh.data = {2};
  candidate.mesh.tensor = {2};
  PlanRequest request = makeRequest(4, 4, {12, 64, 4, 64, 16});
  request.cluster.device.peak["f32"] = 1e9;
  auto judge = [&](const char *glob) {
    request.pins.replicated = {glob};
    return cantFail(Judge(request).extrapolate(candidate, kAny));
  };
  for (bool decides : {true, false}) {
    SCOPED_TRACE(decides);
    candidate.decidesOperators = decides;
    PlanFigures third = judge("h.3.mlp*"), other = judge("h.7.mlp*");
    EXPECT_EQ(third.seconds, other.seconds);
    EXPECT_EQ(third.getNeededMemory(), other.getNeededMemory());
  }
  // Pins of most layers count.
  for (std::vector<std::string> globs :
       {std::vector<std::string>{"h.3.mlp*"},
        {"h.2.mlp*", "h.3.mlp*", "h.4.mlp*", "h.5.mlp*", "h.6.mlp*", "h.7.mlp*",
         "h.8.mlp*", "h.9.mlp*", "h.10.mlp*", "h.11.mlp*"}}) {
    request.pins.replicated = globs;
    Judge standard(request);
    double whole = cantFail(standard.judge(candidate, 12)).figures.seconds;
    EXPECT_NEAR(cantFail(standard.extrapolate(candidate, kAny)).seconds, whole,
                0.06 * whole);
  }
}

// A plan that is completed again has no entry twice.
TEST(FewLayers, CompletePlansOnce) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  request.stated.emplace();
  request.stated->splits = {{"wte", "v", 2, {}, {}}};
  request.stated->priorities = {{"h.*.mlp*", 1, {}}};
  Judge judge(request);
  Plan plan = cantFail(judge.judge(makeDecided(), 2)).plan;
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

TEST(FewLayers, KnowWhetherMostFurtherLayersArePinned) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  Judge judge(request);
  mlir::ModuleOp few = cantFail(judge.getTrainingStep({4, 2}, 1));
  auto arePinned = [&](std::vector<std::string> globs) {
    request.pins.replicated = std::move(globs);
    return PinnedLayers(few, request).arePinnedFurther();
  };
  EXPECT_FALSE(arePinned({}));
  EXPECT_FALSE(arePinned({"h.*.mlp*", "h.1.mlp*"}));
  EXPECT_FALSE(arePinned({"h.2.mlp*", "h.2.attn*", "h.5.mlp*"}));
  EXPECT_TRUE(arePinned({"h.2.mlp*", "h.3.attn*", "h.5.mlp*"}));
}

// Pins of all few layers do not hold for the others, which judge themselves. So
// do further layers if most of them are pinned.
TEST(FewLayers, DoNotStandForAllIfAllArePinned) {
  PlanRequest request = makeRequest(4, 4, {6, 64, 4, 64, 16});
  Candidate candidate = makeDecided();
  candidate.mesh.data = {2};
  candidate.mesh.tensor = {2};
  for (std::vector<std::string> globs :
       {std::vector<std::string>{"h.0.mlp*", "h.1.mlp*"},
        {"h.2.mlp*", "h.3.mlp*", "h.5.mlp*"}}) {
    request.pins.replicated = globs;
    Judge judge(request), whole(request);
    PlanFigures figures = cantFail(judge.extrapolate(candidate, kAny));
    PlanFigures expected =
        cantFail(whole.judge(candidate, request.program.layers)).figures;
    EXPECT_EQ(figures.seconds, expected.seconds);
    EXPECT_EQ(figures.memory.total(), expected.memory.total());
  }
}

/// Judges 24 layers, and the programs of two and four that stand for them.
struct FewAndAll {
  FewAndAll(int64_t parts, RecomputeMode mode) {
    PlanRequest request = makeRequest(4, 8, {24, 64, 4, 2048, 32});
    Judge judge(request);
    Candidate candidate;
    candidate.mesh.data = {2};
    candidate.mesh.statesData = true;
    candidate.mesh.tensor = {2};
    candidate.mesh.sequence = true;
    candidate.zeroLevel = 3;
    candidate.subBatches = parts;
    candidate.recompute = mode;
    candidate.overlap = Overlap::Auto;
    two = cantFail(judge.judge(candidate, 2)).figures;
    four = cantFail(judge.judge(candidate, 4)).figures;
    all = cantFail(judge.judge(candidate, 24)).figures;
    extrapolated = cantFail(judge.extrapolate(candidate, kAny));
  }
  /// Continues the line through the figures of two and four layers.
  static double extend(double two, double four) {
    return two + 11 * (four - two);
  }
  PlanFigures two, four, all, extrapolated;
};

// The memory of few layers is full at the end, when the gradient of the table
// is whole. That of many is full at the last layer.
TEST(FewLayers, NeedWhatAllLayersKeep) {
  FewAndAll judged(4, RecomputeMode::None);
  double total = FewAndAll::extend(double(judged.two.getNeededMemory()),
                                   double(judged.four.getNeededMemory()));
  auto needed = double(judged.extrapolated.getNeededMemory());
  auto whole = double(judged.all.getNeededMemory());
  EXPECT_LT(total, 0.5 * whole);
  EXPECT_GT(needed, 1.2 * total);
  EXPECT_LT(needed, 1.2 * whole);
}

// Four layers wait less than two, because of the beginning and the end of the
// step. All layers do not wait less than four.
TEST(FewLayers, WaitNoLessThanFour) {
  FewAndAll judged(1, RecomputeMode::Communication);
  EXPECT_LT(judged.four.exposed, judged.two.exposed);
  EXPECT_GE(judged.extrapolated.exposed, judged.four.exposed);
  double seconds = FewAndAll::extend(judged.two.seconds, judged.four.seconds);
  EXPECT_GT(judged.extrapolated.seconds, 1.002 * seconds);
  EXPECT_LT(judged.extrapolated.seconds, 1.01 * judged.all.seconds);
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
