//===- BoundsTest.cpp - Lower bounds of candidates ------------------------===//

#include "Candidates/Candidates.h"
#include "PlanRequests.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Expects that candidates take no less time and memory than their bounds. Of
/// those that compute nothing again, every `step`-th one is simulated, and more
/// of the others.
void expectBounds(PlanRequest request, size_t step) {
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  SplitLimits limits =
      getSplitLimits(cantFail(judge.getTrainingStep({1, 1}, 2)));
  SearchSpace space = enumerateCandidates(request, limits);
  for (size_t i = 0; i < space.candidates.size(); ++i) {
    const Candidate &candidate = space.candidates[i];
    bool isPlain =
        candidate.recompute == RecomputeMode::None && !candidate.leavesSchedule;
    if (i % (isPlain ? step : step - 20) != 0)
      continue;
    CandidateBounds bounds = cantFail(model.rate(candidate));
    llvm::Expected<Judgement> judged =
        judge.judge(candidate, *request.program.layers);
    ASSERT_TRUE(bool(judged))
        << candidate.getName() << ": " << llvm::toString(judged.takeError());
    EXPECT_LE(bounds.seconds, judged->figures.seconds) << candidate.getName();
    EXPECT_GT(bounds.seconds, 0);
    const DeviceMemoryPlan &memory = judged->figures.memory;
    EXPECT_LE(bounds.kept, memory.arena + memory.slots) << candidate.getName();
    EXPECT_LE(bounds.state + bounds.kept, memory.total())
        << candidate.getName();
    // The bound of a pipeline is the mean of its stages. The stage with the
    // most memory may have a little less of these parts.
    if (candidate.mesh.pipeline == 1)
      EXPECT_LE(bounds.state,
                memory.parameters + memory.optimizerState + memory.gradients)
          << candidate.getName();
  }
}

PlanRequest withBF16(PlanRequest request) {
  request.training.bf16 = true;
  return request;
}

// Steps that are prime to the sizes of the inner loops.
TEST(Bounds, HoldForSimulatedPrograms) {
  expectBounds(withBF16(makeRequest(4, 8)), 127);
}

/// A request over links so slow that communication takes most of a step.
PlanRequest makeSlowRequest() {
  PlanRequest request = makeRequest(2, 16, {2, 256, 4, 512, 64});
  for (ClusterLevel &level : request.cluster.levels)
    level.bandwidth /= 100;
  return request;
}

// With bf16, sums travel before they are cast to f32.
TEST(Bounds, HoldOnSlowLinks) {
  for (bool bf16 : {false, true}) {
    PlanRequest request = makeSlowRequest();
    request.training.bf16 = bf16;
    Judge judge(request);
    BoundModel model = makeBounds(request, judge);
    for (int64_t tensor : {1, 2}) {
      Candidate candidate;
      candidate.mesh.data = {2 / tensor};
      candidate.mesh.tensor = {tensor};
      candidate.mesh.statesData = true;
      candidate.overlap = Overlap::Auto;
      double bound = cantFail(model.rate(candidate)).seconds;
      double seconds = cantFail(judge.judge(candidate, 2)).figures.seconds;
      EXPECT_LE(bound, seconds) << candidate.getName();
      EXPECT_GT(bound, 0.7 * seconds) << candidate.getName();
    }
  }
}

// Operators and storage that the user states need not exchange what those of
// standard plans do, and variables may be stored in more parts.
TEST(Bounds, HoldForStatedOperators) {
  PlanRequest request = makeSlowRequest();
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate;
  candidate.mesh.tensor = {2};
  CandidateBounds standard = cantFail(model.rate(candidate));
  request.stated.emplace();
  request.stated->operators.push_back({"*", {}, {}});
  CandidateBounds stated = cantFail(model.rate(candidate));
  EXPECT_LT(stated.seconds, standard.seconds);
  request.stated->operators.clear();
  candidate.mesh.data = {2};
  candidate.mesh.tensor = {1};
  standard = cantFail(model.rate(candidate));
  request.stated->storage.push_back({"*", {}, {}});
  stated = cantFail(model.rate(candidate));
  EXPECT_LT(stated.seconds, standard.seconds);
  EXPECT_DOUBLE_EQ(stated.state, standard.state / 2);
  // So may those of operators that are decided one by one.
  request.stated.reset();
  candidate.decidesOperators = true;
  EXPECT_DOUBLE_EQ(cantFail(model.rate(candidate)).state, standard.state / 2);
}

// Gated features, rotated keys of groups of heads, and tables that are not
// tied.
TEST(Bounds, HoldForSimulatedLlamas) {
  int file;
  llvm::SmallString<64> path;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("llama", "json", file, path));
  llvm::FileRemover remover(path);
  llvm::raw_fd_ostream(file, /*shouldClose=*/true) << R"({
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 192, "vocab_size": 256,
    "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "tie_word_embeddings": false})";
  PlanRequest request = makeRequest(4, 8);
  request.program.make = [&](MLIRContext &context, const ProgramSize &size) {
    ImportOptions options;
    options.path = path.str();
    options.checkWeights = false;
    options.sequence = 32;
    options.batch = size.rows;
    options.mostLayers = size.layers;
    return importModel(context, options);
  };
  expectBounds(withBF16(std::move(request)), 127);
}

/// Makes a candidate split the sequence over `context` devices.
void splitSequence(Candidate &candidate, int64_t context,
                   ContextParallelism kind) {
  candidate.mesh.context = context;
  candidate.mesh.statesContext = context > 1;
  candidate.mesh.attention = kind;
}

/// Returns a candidate that splits rows over `data` devices.
Candidate splitRows(int64_t data, Overlap overlap) {
  Candidate candidate;
  candidate.mesh.data = {data};
  candidate.mesh.statesData = true;
  candidate.overlap = overlap;
  return candidate;
}

// Links are so slow that the exchanges of each kind take most of the time.
TEST(Bounds, CountTheTrafficOfASplitSequence) {
  PlanRequest request = makeRequest(4, 4, {2, 64, 4, 256, 128});
  for (ClusterLevel &level : request.cluster.levels)
    level.bandwidth /= 1e4;
  for (bool bf16 : {false, true}) {
    request.training.bf16 = bf16;
    Judge judge(request);
    BoundModel model = makeBounds(request, judge);
    std::map<ContextParallelism, double> bounds;
    for (ContextParallelism kind : kContextKinds)
      for (int64_t tensor : {2, 1}) {
        Candidate candidate =
            splitRows(1, tensor == 1 ? Overlap::Auto : Overlap::None);
        splitSequence(candidate, 4 / tensor, kind);
        candidate.mesh.tensor = {tensor};
        double bound = cantFail(model.rate(candidate)).seconds;
        double seconds = cantFail(judge.judge(candidate, 2)).figures.seconds;
        EXPECT_LE(bound, seconds) << candidate.getName();
        EXPECT_GT(bound, 0.2 * seconds) << candidate.getName();
        bounds[kind] = bound;
      }
    // Each device sends its part of four tensors once, instead of keys and
    // values to three others.
    EXPECT_LT(bounds[ContextParallelism::Heads],
              bounds[ContextParallelism::Gather]);
  }
}

// The bound is the mean of the stages' variables. The table of tokens is on the
// first stage and, for the head, on the last one, so these have more.
TEST(Bounds, SpreadStateOverStages) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto make = [](int64_t pipeline) {
    Candidate candidate = splitRows(4 / pipeline, Overlap::Auto);
    candidate.mesh.pipeline = pipeline;
    candidate.microBatches = 4;
    return candidate;
  };
  double whole = cantFail(model.rate(make(1))).state;
  for (int64_t pipeline : {2, 4}) {
    double bound = cantFail(model.rate(make(pipeline))).state;
    EXPECT_DOUBLE_EQ(bound, whole / double(pipeline));
    Judgement judged = cantFail(judge.judge(make(pipeline), 4));
    const DeviceMemoryPlan &memory = judged.figures.memory;
    auto state =
        double(memory.parameters + memory.optimizerState + memory.gradients);
    EXPECT_LE(bound, state);
    EXPECT_GT(bound, 0.4 * state);
  }
}

// The last device has the products of the head beside at least one layer, and
// waits for the layers of all others.
TEST(Bounds, AddTheHeadToTheLastStage) {
  PlanRequest request = makeRequest(4, 8, {8, 64, 4, 65536, 32});
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto count = [&](int64_t layers) {
    return countProgram(cantFail(judge.getTrainingStep({1, layers}, 2)),
                        request.cluster.device);
  };
  Candidate candidate = splitRows(1, Overlap::Auto);
  candidate.mesh.pipeline = 4;
  candidate.microBatches = 8;
  double head = count(1).headProducts,
         layer = count(2).products - count(1).products;
  EXPECT_GT(head, 10 * layer);
  double bound = cantFail(model.rate(candidate)).seconds;
  EXPECT_GT(bound, 8 * (layer + head) + 7 * layer);
  // The device of the first stage of zb-v has the last one, too, and waits for
  // nobody at the beginning.
  candidate.mesh.schedule = PipelineSchedule::ZBV;
  EXPECT_LT(cantFail(model.rate(candidate)).seconds, bound);
  candidate.mesh.schedule = PipelineSchedule::OneFOneB;
  candidate.stageLayers = {3, 2, 2, 1};
  EXPECT_LE(bound, cantFail(judge.judge(candidate, 8)).figures.seconds);
}

// The stages of a few layers, or of a number that is not known, are cut
// anywhere. The last one may have the head alone.
TEST(Bounds, LetStagesOfFewLayersBeCutAnywhere) {
  PlanRequest request = makeRequest(4, 8, {4, 64, 4, 4096, 32});
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate = splitRows(1, Overlap::Auto);
  candidate.mesh.pipeline = 4;
  candidate.microBatches = 8;
  double bound = cantFail(model.rate(candidate)).seconds;
  EXPECT_LE(bound, cantFail(judge.judge(candidate, 4)).figures.seconds);
  request.program.layers = std::nullopt;
  request.cluster.groups.push_back({request.cluster.device, 4});
  EXPECT_TRUE(std::isfinite(cantFail(model.rate(candidate)).seconds));
}

// Only recomputation that cannot be avoided raises a bound.
TEST(Bounds, AddOnlyWhatEveryRecomputationRepeats) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto adds = [&](int64_t context, ContextParallelism kind,
                  RecomputeMode mode) {
    Candidate candidate = splitRows(4 / context, Overlap::None);
    splitSequence(candidate, context, kind);
    double none = cantFail(model.rate(candidate)).seconds;
    candidate.recompute = mode;
    double seconds = cantFail(model.rate(candidate)).seconds;
    EXPECT_GE(seconds, none);
    return seconds > none;
  };
  using Kind = ContextParallelism;
  using Mode = RecomputeMode;
  for (int64_t context : {1, 2})
    for (Kind kind : kContextKinds)
      EXPECT_FALSE(adds(context, kind, Mode::Optimal));
  EXPECT_TRUE(adds(1, Kind::Ring, Mode::Layer));
  EXPECT_TRUE(adds(1, Kind::Ring, Mode::Communication));
  // The steps of a ring may be taken for layers.
  EXPECT_FALSE(adds(2, Kind::Ring, Mode::Layer));
  EXPECT_FALSE(adds(2, Kind::Ring, Mode::Communication));
  // What gathers and exchanges bring may stay, but the MLP is computed again.
  for (Kind kind : {Kind::Gather, Kind::Heads}) {
    EXPECT_TRUE(adds(2, kind, Mode::Layer));
    EXPECT_TRUE(adds(2, kind, Mode::Communication));
  }
}

// Recomputation takes longer than its bound, however the sequence is split.
TEST(Bounds, HoldForRecomputationOfASplitSequence) {
  PlanRequest request = makeRequest(2, 2, {4, 64, 4, 256, 32});
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  for (ContextParallelism kind : kContextKinds)
    for (RecomputeMode mode :
         {RecomputeMode::Layer, RecomputeMode::Communication}) {
      Candidate candidate = splitRows(1, Overlap::None);
      splitSequence(candidate, 2, kind);
      candidate.recompute = mode;
      EXPECT_LE(cantFail(model.rate(candidate)).seconds,
                cantFail(judge.judge(candidate, 4)).figures.seconds)
          << candidate.getName();
    }
}

// If the steps of a ring are taken for layers, all else stays, for which there
// may be no memory.
TEST(Bounds, RepeatBesideARingWhatExceedsTheMemory) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate = splitRows(2, Overlap::None);
  splitSequence(candidate, 2, ContextParallelism::Ring);
  CandidateBounds none = cantFail(model.rate(candidate));
  for (RecomputeMode mode :
       {RecomputeMode::Layer, RecomputeMode::Communication}) {
    candidate.recompute = mode;
    request.memory = int64_t(none.state + none.kept);
    EXPECT_EQ(cantFail(model.rate(candidate)).seconds, none.seconds);
    // Attention's values are less than half of the kept values.
    request.memory = int64_t(none.state + 0.5 * none.kept);
    EXPECT_GT(cantFail(model.rate(candidate)).seconds, none.seconds);
  }
}

// Tensor parallelism splits hidden features, but not the inputs of the products
// that make them.
TEST(Bounds, KeepInputsOfProductsWhole) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto getKept = [&](int64_t pipeline, int64_t tensor, int64_t parts) {
    Candidate candidate = splitRows(4 / pipeline / tensor, Overlap::Auto);
    candidate.mesh.pipeline = pipeline;
    candidate.mesh.tensor = {tensor};
    candidate.microBatches = pipeline;
    candidate.subBatches = parts;
    return cantFail(model.rate(candidate)).kept;
  };
  EXPECT_GT(getKept(1, 4, 1), 1.5 * getKept(1, 1, 1));
  EXPECT_LT(getKept(1, 4, 1), 4 * getKept(1, 1, 1));
  // Parts may follow each other within one program. The forward pass of a stage
  // is one of its own.
  EXPECT_DOUBLE_EQ(getKept(1, 4, 2), getKept(1, 4, 1) / 2);
  EXPECT_DOUBLE_EQ(getKept(2, 2, 2), getKept(2, 2, 1));
}

// Each part of a batch gathers weights that are stored in parts, in both
// passes.
TEST(Bounds, GatherWeightsForEachPart) {
  PlanRequest request = makeRequest(4, 8);
  for (ClusterLevel &level : request.cluster.levels)
    level.bandwidth /= 1e5;
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto rate = [&](int64_t zeroLevel, int64_t microBatches, int64_t parts) {
    Candidate candidate = splitRows(4, Overlap::Auto);
    candidate.zeroLevel = zeroLevel;
    candidate.microBatches = microBatches;
    candidate.subBatches = parts;
    return cantFail(model.rate(candidate)).seconds;
  };
  // Sums of gradients and gathers of both passes, of which one is exchanged
  // once more.
  EXPECT_GT(rate(3, 1, 2), 1.4 * rate(3, 1, 1));
  EXPECT_GT(rate(3, 2, 1), rate(3, 1, 2));
  EXPECT_NEAR(rate(1, 1, 2), rate(1, 1, 1), 1e-3 * rate(1, 1, 1));
}

// Work that does not grow with the rows is done for each micro-batch, unless
// gradients are stored in parts.
TEST(Bounds, RepeatFixedWorkForEachMicroBatch) {
  PlanRequest request = makeRequest(4, 8);
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  auto rate = [&](int64_t microBatches, int64_t zeroLevel) {
    Candidate candidate = splitRows(4, Overlap::Auto);
    candidate.microBatches = microBatches;
    candidate.zeroLevel = zeroLevel;
    return cantFail(model.rate(candidate)).seconds;
  };
  // In this small program, launches are most of it.
  EXPECT_GT(rate(2, 1), 1.5 * rate(1, 1));
  EXPECT_GT(rate(2, 1), rate(2, 2));
}

// Programs of more rows have further kernels, which sum partial gradients of
// biases up. Their launches do not grow with the rows.
TEST(Bounds, HoldIfKernelsChangeWithTheRows) {
  PlanRequest request = withBF16(makeRequest(1, 32, {2, 2048, 16, 4096, 1024}));
  Judge judge(request);
  EXPECT_LT(cantFail(judge.measureKernels({1, 2})).size(),
            cantFail(judge.measureKernels({2, 2})).size());
  BoundModel model = makeBounds(request, judge);
  Candidate candidate = splitRows(1, Overlap::Auto);
  candidate.microBatches = 2;
  double bound = cantFail(model.rate(candidate)).seconds;
  double seconds = cantFail(judge.judge(candidate, 2)).figures.seconds;
  EXPECT_LE(bound, seconds);
  EXPECT_GT(bound, 0.98 * seconds);
}

// The update is behind all passes, so these hide none of its exchanges.
TEST(Bounds, AddExchangesOfTheUpdateToThePasses) {
  PlanRequest request = makeRequest(4, 8, {8, 64, 4, 256, 32});
  // Exchanges take longer than the computation of the update.
  for (ClusterLevel &level : request.cluster.levels)
    level.bandwidth /= 10;
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  PlanRequest slow = request;
  for (ClusterLevel &level : slow.cluster.levels)
    level.bandwidth /= 2;
  BoundModel slowModel = makeBounds(slow, judge);
  auto grows = [&](int64_t microBatches, int64_t zeroLevel,
                   int64_t pipeline = 1) {
    Candidate candidate;
    candidate.mesh.pipeline = pipeline;
    candidate.mesh.data = {4 / pipeline};
    candidate.mesh.statesData = true;
    candidate.overlap = Overlap::Auto;
    candidate.microBatches = microBatches;
    candidate.zeroLevel = zeroLevel;
    double seconds = cantFail(model.rate(candidate)).seconds;
    double growth = cantFail(slowModel.rate(candidate)).seconds - seconds;
    // The growth is so small that passes would hide it.
    EXPECT_LT(growth, 0.1 * seconds);
    return growth > 0;
  };
  for (int64_t pipeline : {1, 2}) {
    EXPECT_TRUE(grows(2, 0, pipeline)); // sums of gradients
    EXPECT_TRUE(grows(2, 1, pipeline));
    EXPECT_TRUE(grows(2, 2, pipeline)); // gathers parameters
    EXPECT_FALSE(grows(2, 3, pipeline));
  }
  // One micro-batch and the update are one program, whose clip waits for all
  // gradients.
  EXPECT_FALSE(grows(1, 0));
  EXPECT_TRUE(grows(1, 1));
  request.training.clip = slow.training.clip = 0;
  EXPECT_FALSE(grows(1, 1));
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
// user states stages or the layers are few.
TEST(Bounds, KeepWhatTheSmallestFirstStageDoes) {
  PlanRequest request = makeRequest(4, 8, {8, 64, 4, 256, 32});
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate;
  candidate.mesh.pipeline = 2;
  candidate.mesh.data = {2};
  candidate.microBatches = 4;
  auto getKept = [&] { return cantFail(model.rate(candidate)).kept; };
  double kept = getKept(); // of four of eight layers
  EXPECT_GT(kept, 0);
  request.cluster.groups = {{request.cluster.device, 4},
                            {request.cluster.device, 4}};
  EXPECT_DOUBLE_EQ(getKept(), kept / 4);
  request.program.layers = 4;
  EXPECT_EQ(getKept(), 0);
  request.program.layers = 8;
  request.stated.emplace();
  request.stated->numStages = 2;
  EXPECT_EQ(getKept(), 0);
}

} // namespace
