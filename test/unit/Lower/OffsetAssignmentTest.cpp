//===- OffsetAssignmentTest.cpp - Buffers that live together are apart ----===//

#include "lib/Lower/PlanArenas/OffsetAssignment.h"
#include "llvm/Support/MathExtras.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <functional>
#include <numeric>
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

/// Places the buffers in the given order, each into the smallest gap that is
/// free throughout its life, or else on top. Compares all pairs of buffers.
OffsetAssignment placeInOrder(llvm::ArrayRef<LiveBuffer> buffers,
                              llvm::ArrayRef<int> order) {
  OffsetAssignment result;
  result.offsets.assign(buffers.size(), -1);
  for (int i : order) {
    std::vector<std::pair<int64_t, int64_t>> used;
    for (size_t j = 0; j < buffers.size(); ++j)
      if (result.offsets[j] >= 0 && buffers[j].first <= buffers[i].last &&
          buffers[i].first <= buffers[j].last)
        used.emplace_back(result.offsets[j],
                          result.offsets[j] +
                              int64_t(llvm::alignTo(buffers[j].bytes, 64)));
    std::sort(used.begin(), used.end());
    int64_t bytes = llvm::alignTo(buffers[i].bytes, 64);
    int64_t top = 0, best = -1, bestGap = INT64_MAX;
    for (auto [from, to] : used) {
      if (from - top >= bytes && from - top < bestGap) {
        best = top;
        bestGap = from - top;
      }
      top = std::max(top, to);
    }
    result.offsets[i] = best >= 0 ? best : top;
    result.peak = std::max(result.peak, result.offsets[i] + bytes);
  }
  return result;
}

TEST(OffsetAssignment, TakesTheBestOfTheOrders) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    std::vector<LiveBuffer> buffers;
    for (int i = 0; i < 150; ++i) {
      int64_t first = random() % 600;
      int64_t length = random() % 3 ? random() % 8 : random() % 500;
      buffers.push_back({int64_t(random() % 900), first, first + length});
    }
    // By size, by size times life, by life, and by start.
    auto life = [&](int i) { return buffers[i].last - buffers[i].first + 1; };
    std::function<double(int)> keys[] = {
        [&](int i) { return -double(buffers[i].bytes); },
        [&](int i) { return -double(buffers[i].bytes) * life(i); },
        [&](int i) { return -double(life(i)); },
        [&](int i) { return double(buffers[i].first); }};
    OffsetAssignment best;
    for (const auto &key : keys) {
      std::vector<int> order(buffers.size());
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int i, int j) {
        return std::pair(key(i), i) < std::pair(key(j), j);
      });
      OffsetAssignment placed = placeInOrder(buffers, order);
      if (best.offsets.empty() || placed.peak < best.peak)
        best = placed;
    }
    OffsetAssignment assignment = assignOffsets(buffers, 64);
    EXPECT_EQ(assignment.peak, best.peak);
    EXPECT_EQ(assignment.offsets, best.offsets);
  }
}

} // namespace
