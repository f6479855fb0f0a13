//===- CorrectionsTest.cpp - Corrections of estimates ---------------------===//

#include "Search/Corrections.h"
#include "gtest/gtest.h"

using namespace heddle;

namespace {

Candidate makeCandidate(int64_t data, int64_t tensor, int64_t zeroLevel) {
  Candidate candidate;
  candidate.mesh.data = {data};
  candidate.mesh.tensor = {tensor};
  candidate.mesh.sequence = true;
  candidate.zeroLevel = zeroLevel;
  return candidate;
}

// The time of a candidate with an open schedule is corrected by its own mesh,
// although other meshes have been judged with open schedules.
TEST(Corrections, OfTimesPreferTheMeshToTheSchedule) {
  Candidate open = makeCandidate(2, 2, 1), other = makeCandidate(1, 4, 0);
  open.leavesSchedule = other.leavesSchedule = true;
  Candidate same = makeCandidate(2, 2, 0);
  same.microBatches = 2;
  CorrectionKeyMaker keys(8);
  Corrections times(kTimeErrors);
  times.learn(keys.get(same).time, 1.5);
  times.learn(keys.get(other).time, 2);
  EXPECT_EQ(times.get(keys.get(open).time).factor, 1.5);
}

// ZeRO 3 gathers weights in each pass, which ZeRO 2 does not.
TEST(Corrections, OfTimesTellGatheredWeightsApart) {
  CorrectionKeyMaker keys(8);
  Corrections times(kTimeErrors);
  times.learn(keys.get(makeCandidate(2, 2, 2)).time, 1.5);
  times.learn(keys.get(makeCandidate(2, 2, 3)).time, 2.5);
  EXPECT_EQ(times.get(keys.get(makeCandidate(2, 2, 1)).time).factor, 1.5);
}

// With several micro-batches, ZeRO 2 sums gradients up in each of them. That
// says nothing of candidates that sum them up once.
TEST(Corrections, OfTimesTellSumsOfEachMicroBatchApart) {
  CorrectionKeyMaker keys(8);
  Candidate alike = makeCandidate(2, 2, 0), once = makeCandidate(2, 2, 1),
            always = makeCandidate(2, 2, 2);
  alike.microBatches = once.microBatches = always.microBatches = 4;
  Corrections times(kTimeErrors);
  times.learn(keys.get(always).time, 2.5);
  EXPECT_EQ(times.get(keys.get(once).time).factor, 1);
  times.learn(keys.get(alike).time, 1.5);
  EXPECT_EQ(times.get(keys.get(once).time).factor, 1.5);
  // Without further micro-batches, all sum gradients up once.
  once.microBatches = always.microBatches = 1;
  times.learn(keys.get(always).time, 3.5);
  EXPECT_EQ(times.get(keys.get(once).time).factor, 3.5);
}

// Parts of a batch hide sums, and their estimates have other errors.
TEST(Corrections, OfTimesTellPartsOfABatchApart) {
  Candidate whole = makeCandidate(1, 8, 0), inParts = whole;
  inParts.subBatches = 2;
  CorrectionKeyMaker keys(8);
  Corrections times(kTimeErrors);
  times.learn(keys.get(makeCandidate(2, 4, 0)).time, 1.1);
  times.learn(keys.get(inParts).time, 1.3);
  EXPECT_EQ(times.get(keys.get(whole).time).factor, 1.1);
}

// What stays in memory depends on recomputation more than on the mesh.
TEST(Corrections, OfMemoryPreferRecomputation) {
  Candidate layer = makeCandidate(1, 4, 0), wanted = makeCandidate(2, 2, 1);
  layer.recompute = wanted.recompute = RecomputeMode::Layer;
  CorrectionKeyMaker keys(8);
  Corrections arenas(kMemoryErrors);
  arenas.learn(keys.get(layer).memory, 3);
  arenas.learn(keys.get(makeCandidate(2, 2, 1)).memory, 1.5);
  EXPECT_EQ(arenas.get(keys.get(wanted).memory).factor, 3);
}

// Several stages of a device hold more micro-batches than one. A judgement of
// such a pipeline corrects no other one.
TEST(Corrections, OfMemoryTellInterleavedStagesApart) {
  Candidate plain = makeCandidate(2, 2, 1), interleaved = plain;
  plain.mesh.pipeline = interleaved.mesh.pipeline = 2;
  plain.microBatches = interleaved.microBatches = 4;
  interleaved.mesh.schedule = PipelineSchedule::Interleaved;
  CorrectionKeyMaker keys(16);
  Corrections arenas(kMemoryErrors);
  arenas.learn(keys.get(interleaved).memory, 2);
  EXPECT_EQ(arenas.get(keys.get(plain).memory).factor, 1);
  EXPECT_EQ(arenas.get(keys.get(interleaved).memory).factor, 2);
}

// The same number of stages counts before sequence parallelism.
TEST(Corrections, PreferTheNumberOfStages) {
  Candidate two = makeCandidate(2, 2, 1), four = makeCandidate(1, 2, 1);
  two.mesh.pipeline = 2;
  four.mesh.pipeline = 4;
  two.microBatches = four.microBatches = 8;
  Candidate other = four;
  other.mesh.sequence = false;
  CorrectionKeyMaker keys(16);
  Corrections times(kTimeErrors), arenas(kMemoryErrors);
  times.learn(keys.get(other).time, 0.8);
  times.learn(keys.get(two).time, 1.2);
  arenas.learn(keys.get(other).memory, 1.1);
  arenas.learn(keys.get(two).memory, 1.5);
  EXPECT_EQ(times.get(keys.get(four).time).factor, 0.8);
  EXPECT_EQ(arenas.get(keys.get(four).memory).factor, 1.1);
}

} // namespace
