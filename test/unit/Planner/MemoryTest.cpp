//===- MemoryTest.cpp - Estimated memory of candidates --------------------===//

#include "PlanRequests.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace heddle;

namespace {

// Values outside of layers are most of the activations of a program with a
// large vocabulary.
TEST(Bounds, EstimateMemory) {
  PlanRequest request = makeRequest(4, 16, {8, 64, 4, 16384, 64});
  request.training.bf16 = true;
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate;
  candidate.overlap = Overlap::None;
  auto expectNear = [&] {
    CandidateBounds bounds = cantFail(model.rate(candidate));
    auto bytes =
        double(cantFail(judge.judge(candidate, 8)).figures.getNeededMemory());
    EXPECT_NEAR(bounds.state + bounds.arena, bytes, 0.3 * bytes)
        << candidate.getName();
  };
  for (auto [stages, data, tensor, level] : {std::tuple(1, 4, 1, 1),
                                             {1, 4, 1, 3},
                                             {1, 2, 2, 1},
                                             {2, 2, 1, 1},
                                             {2, 1, 2, 0}})
    for (int64_t microBatches : {4, 2, 1})
      for (RecomputeMode mode :
           {RecomputeMode::None, RecomputeMode::Communication,
            RecomputeMode::Layer}) {
        candidate.mesh.pipeline = stages;
        candidate.mesh.data = {data};
        candidate.mesh.tensor = {tensor};
        candidate.zeroLevel = level;
        candidate.microBatches = microBatches;
        candidate.recompute = mode;
        if (microBatches >= stages)
          expectNear();
      }
  candidate.microBatches = 4;
  for (PipelineSchedule schedule :
       {PipelineSchedule::ZBH1, PipelineSchedule::Interleaved}) {
    candidate.mesh.schedule = schedule;
    expectNear();
  }
}

// Two devices that have two stages each hold five chunks of half a stage, which
// are two and a half micro-batches. With one stage each, they hold two.
TEST(Bounds, EstimateMemoryOfInterleavedStages) {
  PlanRequest request = makeRequest(2, 16, {8, 64, 4, 64, 64});
  Judge judge(request);
  BoundModel model = makeBounds(request, judge);
  Candidate candidate;
  candidate.mesh.pipeline = 2;
  candidate.microBatches = 4;
  double plain = cantFail(model.rate(candidate)).arena;
  candidate.mesh.schedule = PipelineSchedule::Interleaved;
  double interleaved = cantFail(model.rate(candidate)).arena;
  EXPECT_GT(interleaved, 1.1 * plain);
  EXPECT_LT(interleaved, 1.25 * plain);
}

// A program of one size keeps less if it computes layers again, too.
TEST(Bounds, EstimateMemoryOfProgramsOfOneSize) {
  PlanRequest request = makeRequest(2, 8);
  request.program.layers.reset();
  request.program.depth = 4;
  request.program.microBatchRows = 8;
  Judge judge(request);
  BoundModel model(request,
                   CountModel(countProgram(
                       cantFail(judge.getTrainingStep({8, std::nullopt}, 2)),
                       request.cluster.device)));
  Candidate candidate;
  candidate.mesh.data = {2};
  double whole = cantFail(model.rate(candidate)).arena;
  candidate.recompute = RecomputeMode::Layer;
  EXPECT_LT(cantFail(model.rate(candidate)).arena, 0.75 * whole);
}

} // namespace
