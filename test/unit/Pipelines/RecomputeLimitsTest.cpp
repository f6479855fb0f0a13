//===- RecomputeLimitsTest.cpp - Limits of optimal recomputation ----------===//

#include "heddle/Pipelines/RecomputeLimits.h"
#include "heddle/Plan/Plan.h"

#include <gtest/gtest.h>

using heddle::kMaxRecomputeBytes;
using heddle::RecomputeLimits;

namespace {

TEST(RecomputeLimits, StartsAtTheRoomOrTheStatedLimit) {
  EXPECT_EQ(RecomputeLimits(1000).getLimit(), 1000);
  EXPECT_EQ(RecomputeLimits(1000, 300).getLimit(), 300);
}

// The used bytes are taken to grow with the limit. The next limit aims at
// 97.5 % of the room.
TEST(RecomputeLimits, GrowsWhenLittleIsUsed) {
  RecomputeLimits limits(1000);
  EXPECT_TRUE(limits.next(500));
  EXPECT_EQ(limits.getLimit(), 1950);
}

TEST(RecomputeLimits, ShrinksWhenTheRoomIsExceeded) {
  RecomputeLimits limits(1000);
  EXPECT_TRUE(limits.next(1950));
  EXPECT_EQ(limits.getLimit(), 500);
}

TEST(RecomputeLimits, EndsWhenTheRoomIsFull) {
  for (int64_t used : {950, 975, 1000})
    EXPECT_FALSE(RecomputeLimits(1000).next(used)) << used;
  for (int64_t used : {949, 1001})
    EXPECT_TRUE(RecomputeLimits(1000).next(used)) << used;
}

// 1000 bytes fit and 1950 exceed the room. In proportion to what the second
// program takes, the third limit would be less than what fits.
TEST(RecomputeLimits, BisectsBetweenWhatFitsAndWhatExceeds) {
  RecomputeLimits limits(1000);
  EXPECT_TRUE(limits.next(500));
  EXPECT_EQ(limits.getLimit(), 1950);
  EXPECT_TRUE(limits.next(3000));
  EXPECT_EQ(limits.getLimit(), 1475);
  EXPECT_TRUE(limits.next(600));
  EXPECT_EQ(limits.getLimit(), 1712);
}

// A step of the used bytes: a limit between two that are known is halved, too,
// when it changes nothing.
TEST(RecomputeLimits, BisectsWhenALimitChangesNothing) {
  RecomputeLimits limits(1000);
  EXPECT_TRUE(limits.next(1200));
  EXPECT_EQ(limits.getLimit(), 812);
  EXPECT_TRUE(limits.next(1200));
  EXPECT_EQ(limits.getLimit(), 406);
}

TEST(RecomputeLimits, EndsWhenSmallerLimitsChangeNothing) {
  RecomputeLimits limits(1000);
  EXPECT_TRUE(limits.next(2000));
  EXPECT_TRUE(limits.next(2000));
  EXPECT_FALSE(limits.next(2000));
}

// A program that keeps everything takes no more with any larger limit: nothing
// exceeds the room, so there is no limit to bisect towards.
TEST(RecomputeLimits, EndsWhenLargerLimitsChangeNothing) {
  RecomputeLimits limits(1000);
  EXPECT_TRUE(limits.next(500));
  EXPECT_FALSE(limits.next(500));
}

TEST(RecomputeLimits, EndsAfterTheFifthLimit) {
  RecomputeLimits limits(1000);
  for (int64_t used : {2000, 1900, 1800, 1700})
    EXPECT_TRUE(limits.next(used)) << used;
  EXPECT_FALSE(limits.next(1600));
}

TEST(RecomputeLimits, StaysWithinThePlansBounds) {
  RecomputeLimits high(kMaxRecomputeBytes);
  EXPECT_FALSE(high.next(kMaxRecomputeBytes / 2));
  EXPECT_FALSE(RecomputeLimits(1).next(2));
}

// A program that takes 400 bytes and half of its limit fills the room.
TEST(RecomputeLimits, FindsALimitThatFillsTheRoom) {
  RecomputeLimits limits(1000);
  auto getUsed = [&] { return 400 + limits.getLimit() / 2; };
  while (limits.next(getUsed()))
    ;
  EXPECT_GE(getUsed(), 950);
  EXPECT_LE(getUsed(), 1000);
}

} // namespace
