//===- KernelCountsTest.cpp - Kernels as a function of rows ---------------===//

#include "Bounds/KernelCounts.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

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

TEST(KernelCounts, MeasureUntilKernelsAreTheSame) {
  std::vector<int64_t> measured;
  auto measure = [&](int64_t rows) -> llvm::Expected<KernelSeconds> {
    measured.push_back(rows);
    return rows < 4 ? KernelSeconds(size_t(rows), 1.0)
                    : KernelSeconds{1.5, 1.5};
  };
  // One and two kernels, and then two again.
  EXPECT_TRUE(measureKernelCounts(measure, 1));
  EXPECT_EQ(measured, (std::vector<int64_t>{1, 2, 4}));
  auto fail = [](int64_t) -> llvm::Expected<KernelSeconds> {
    return llvm::createStringError("no");
  };
  EXPECT_FALSE(measureKernelCounts(fail, 1));
}

} // namespace
