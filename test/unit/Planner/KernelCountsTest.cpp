//===- KernelCountsTest.cpp - Kernels as a function of rows ---------------===//

#include "Bounds/KernelCounts.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"
#include <algorithm>

using namespace heddle;

namespace {

// Two kernels, one of which grows. Times differ in their last bits.
TEST(KernelCounts, TellGrowingKernels) {
  KernelCounts counts =
      fitKernels({{1, {5, 7}}, {2, {5 + 1e-9, 9}}}, /*launch=*/1).value();
  EXPECT_NEAR(counts.perRow, 2, 1e-6);
  EXPECT_NEAR(counts.fixed, 10, 1e-6);
  EXPECT_EQ(counts.launches, 2);
  EXPECT_EQ(counts.growingLaunches, 1);
}

// A program of one row has a kernel less, and is a little cheaper.
TEST(KernelCounts, BoundProgramsWithOtherKernels) {
  std::map<int64_t, KernelSeconds> programs = {
      {1, {10, 19.5}}, {2, {10, 30, 3}}, {4, {10, 50, 3}}};
  KernelCounts counts = fitKernels(programs, /*launch=*/2).value();
  EXPECT_EQ(counts.perRow, 10);
  EXPECT_EQ(counts.launches, 4);
  // That of one row; the others have 23, of which 2 are a launch.
  EXPECT_EQ(counts.fixed, 19.5);
  programs.erase(4);
  EXPECT_FALSE(fitKernels(programs, 2));
}

// Fewer rows take less than their part of the last ones.
TEST(KernelCounts, AreUnknownIfNoLineIsBelow) {
  EXPECT_FALSE(
      fitKernels({{1, {5}}, {2, {5, 15}}, {4, {10, 30}}}, /*launch=*/1));
}

// A kernel that reads weights takes the same time for up to three rows.
TEST(KernelCounts, BoundRowsBetweenMeasuredOnes) {
  auto getSeconds = [](int64_t rows) {
    return std::max(12.0, 3.0 + 3.0 * double(rows));
  };
  auto measure = [&](int64_t rows) -> llvm::Expected<KernelSeconds> {
    return rows == 1 ? KernelSeconds{12} : KernelSeconds{getSeconds(rows), 1};
  };
  KernelCounts counts = measureKernelCounts(measure, /*launch=*/0).value();
  for (int64_t rows = 1; rows <= 8; ++rows)
    EXPECT_LE(counts.fixed + double(rows) * counts.perRow, getSeconds(rows) + 1)
        << rows;
}

TEST(KernelCounts, MeasureUntilKernelsAreTheSame) {
  std::vector<int64_t> measured;
  size_t ofThree = 2;
  auto measure = [&](int64_t rows) -> llvm::Expected<KernelSeconds> {
    measured.push_back(rows);
    return KernelSeconds(rows == 3 ? ofThree : std::min<size_t>(rows, 2), 1.0);
  };
  // One and two kernels, and then two again.
  EXPECT_TRUE(measureKernelCounts(measure, 1));
  EXPECT_EQ(measured, (std::vector<int64_t>{1, 2, 4, 3}));
  ofThree = 3;
  EXPECT_FALSE(measureKernelCounts(measure, 1));
  auto fail = [](int64_t) -> llvm::Expected<KernelSeconds> {
    return llvm::createStringError("no");
  };
  EXPECT_FALSE(measureKernelCounts(fail, 1));
}

} // namespace
