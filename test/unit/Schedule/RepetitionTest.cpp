//===- RepetitionTest.cpp - Ops that repeat -------------------------------===//

#include "Repetition.h"

#include <gtest/gtest.h>

using namespace heddle;

namespace {

using Fingerprints = std::vector<uint64_t>;

/// Returns `layers` layers between other ops. Each has 10 ops of its own around
/// `steps` equal steps of 4 ops.
Fingerprints makeFingerprints(int layers, int steps) {
  Fingerprints fingerprints = {1};
  auto add = [&](uint64_t first, int count) {
    for (int i = 0; i < count; ++i)
      fingerprints.push_back(first + uint64_t(i));
  };
  for (int layer = 0; layer < layers; ++layer) {
    add(10, 5);
    for (int step = 0; step < steps; ++step)
      add(20, 4);
    add(30, 5);
  }
  fingerprints.push_back(2);
  return fingerprints;
}

TEST(Repetition, FindsLayers) {
  int32_t period = 0;
  auto runs = findLeastRuns(makeFingerprints(6, 1), period);
  EXPECT_EQ(period, 14);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].begin, 1);
  EXPECT_EQ(runs[0].end, 85);
}

// Most ops are of such steps. A layer has the other ones, too.
TEST(Repetition, StepsOfALayerAreNoLayers) {
  for (int layers : {2, 3, 4, 5}) {
    int32_t period = 0;
    auto runs = findLeastRuns(makeFingerprints(layers, 4), period);
    EXPECT_EQ(period, 26);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].end - runs[0].begin, layers * 26);
  }
}

TEST(Repetition, OpsOfWhichFewRepeatHaveNone) {
  int32_t period = 0;
  EXPECT_TRUE(
      findLeastRuns(Fingerprints{1, 1, 2, 3, 4, 5, 6, 7}, period).empty());
  EXPECT_TRUE(findLeastRuns({}, period).empty());
}

} // namespace
