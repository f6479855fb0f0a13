//===- OffsetAssignmentTest.cpp - Buffers that live together are apart ----===//

#include "lib/Lower/PlanArenas/OffsetAssignment.h"
#include "gtest/gtest.h"
#include <random>

using namespace heddle;

namespace {

/// Expects that two buffers that are live at the same position share no byte.
void expectApart(llvm::ArrayRef<LiveBuffer> buffers,
                 const OffsetAssignment &assignment) {
  ASSERT_EQ(assignment.offsets.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(assignment.offsets[i] % 64, 0);
    EXPECT_LE(assignment.offsets[i] + buffers[i].bytes, assignment.peak);
    for (size_t j = i + 1; j < buffers.size(); ++j) {
      bool together = buffers[i].first <= buffers[j].last &&
                      buffers[j].first <= buffers[i].last;
      bool apart =
          assignment.offsets[i] + buffers[i].bytes <= assignment.offsets[j] ||
          assignment.offsets[j] + buffers[j].bytes <= assignment.offsets[i];
      EXPECT_TRUE(!together || apart) << i << " and " << j;
    }
  }
}

TEST(OffsetAssignment, Empty) {
  EXPECT_EQ(assignOffsets({}, 64).peak, 0);
  EXPECT_EQ(getMaxLiveBytes({}, 64), 0);
}

TEST(OffsetAssignment, ReusesWhatIsDead) {
  LiveBuffer buffers[] = {{100, 0, 1}, {128, 2, 3}, {1, 1, 2}};
  OffsetAssignment assignment = assignOffsets(buffers, 64);
  expectApart(buffers, assignment);
  // At most the buffers of 128 and 64 bytes (1, aligned) are live together.
  EXPECT_EQ(getMaxLiveBytes(buffers, 64), 192);
  EXPECT_EQ(assignment.peak, 192);
}

TEST(OffsetAssignment, RandomBuffersAreApartAndNearTheBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<LiveBuffer> buffers;
    for (int i = 0; i < 200; ++i) {
      int64_t first = random() % 300;
      int64_t length = random() % 4 ? random() % 8 : random() % 200;
      buffers.push_back({int64_t(1 + random() % 5000), first, first + length});
    }
    OffsetAssignment assignment = assignOffsets(buffers, 64);
    expectApart(buffers, assignment);
    int64_t bound = getMaxLiveBytes(buffers, 64);
    EXPECT_GE(assignment.peak, bound);
    EXPECT_LE(assignment.peak, bound + bound / 4);
  }
}

} // namespace
