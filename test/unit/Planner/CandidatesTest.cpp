//===- CandidatesTest.cpp - The candidates of a search --------------------===//

#include "Candidates/Candidates.h"
#include "PlanRequests.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

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
  // The head is behind all layers.
  EXPECT_GT(expected.headProducts, 0);
  EXPECT_DOUBLE_EQ(count(5, 1).headProducts, expected.headProducts);
  EXPECT_NEAR(model.headProducts, expected.headProducts,
              1e-12 * expected.headProducts);
  // Parameters have AdamW's two moments and a gradient.
  EXPECT_DOUBLE_EQ(expected.optimizerState, 2 * expected.parameters);
  EXPECT_DOUBLE_EQ(expected.gradients, expected.parameters);
  // The logits, their gradient, and the table of words are the largest values.
  // An evaluation also has two numbers as results.
  constexpr double logits = 5 * 32 * 256 * 4;
  EXPECT_DOUBLE_EQ(expected.results, logits + 8);
  EXPECT_DOUBLE_EQ(expected.largestGradient, logits);
  EXPECT_DOUBLE_EQ(expected.largestOfParameters, 256 * 64 * 4);
  EXPECT_DOUBLE_EQ(model.results, expected.results);
  EXPECT_DOUBLE_EQ(model.largestGradient, expected.largestGradient);
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

TEST(Candidates, SplitTheSequenceInEachWay) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  SplitLimits limits =
      getSplitLimits(cantFail(judge.getTrainingStep({1, 1}, 2)));
  using Kind = ContextParallelism;
  // 32 positions, four heads.
  EXPECT_TRUE(limits.canSplitContext(Kind::Gather, 32, 1));
  EXPECT_TRUE(limits.canSplitContext(Kind::Ring, 16, 1));
  EXPECT_FALSE(limits.canSplitContext(Kind::Ring, 32, 1));
  EXPECT_TRUE(limits.canSplitContext(Kind::Heads, 4, 1));
  EXPECT_FALSE(limits.canSplitContext(Kind::Heads, 8, 1));
  EXPECT_TRUE(limits.canSplitContext(Kind::Heads, 2, 2));
  EXPECT_FALSE(limits.canSplitContext(Kind::Heads, 4, 2));
  auto getNames = [&] {
    std::set<std::string> names;
    for (const Candidate &candidate :
         enumerateCandidates(request, limits).candidates)
      names.insert(candidate.getName());
    return names;
  };
  std::set<std::string> names = getNames();
  std::string end = " --micro-batches 2 --overlap auto";
  EXPECT_TRUE(names.count("--mesh dp=1,cp=4" + end));
  EXPECT_TRUE(names.count("--mesh dp=1,cp=4 --context gather" + end));
  EXPECT_TRUE(names.count("--mesh dp=1,cp=2,tp=2 --context heads" + end));
  EXPECT_TRUE(names.count("--mesh dp=4" + end));
  EXPECT_FALSE(names.count("--mesh dp=4 --context heads" + end));
  request.pins.attention = Kind::Heads;
  for (const std::string &name : getNames()) {
    EXPECT_NE(name.find(",cp="), std::string::npos) << name;
    EXPECT_NE(name.find(" --context heads"), std::string::npos) << name;
  }
  EXPECT_FALSE(getNames().empty());
}

// Norms split the sequence over cp and tp. Only a ring takes two chunks.
TEST(Candidates, SplitTheSequenceOfNorms) {
  auto has = [](int64_t sequence, const std::string &name) {
    PlanRequest request = makeRequest(4, 8, {1, 64, 4, 256, sequence});
    Judge judge(request);
    SplitLimits limits =
        getSplitLimits(cantFail(judge.getTrainingStep({1, 1}, 2)));
    return llvm::any_of(enumerateCandidates(request, limits).candidates,
                        [&](const Candidate &candidate) {
                          return candidate.getName() == name;
                        });
  };
  std::string end = " --sequence --overlap auto";
  EXPECT_TRUE(has(4, "--mesh dp=1,tp=4" + end));
  EXPECT_FALSE(has(6, "--mesh dp=1,tp=4" + end));
  EXPECT_TRUE(has(4, "--mesh dp=1,cp=2,tp=2 --context gather" + end));
  EXPECT_FALSE(has(6, "--mesh dp=1,cp=2,tp=2 --context gather" + end));
}

} // namespace
