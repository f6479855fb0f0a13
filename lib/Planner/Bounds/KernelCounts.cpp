//===- KernelCounts.cpp - Counts of compiled kernels ----------------------===//

#include "KernelCounts.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace heddle;

/// The most rows of a program that is measured.
static constexpr int64_t kMostRows = 16;
/// Relative differences up to this one come from rounded times.
static constexpr double kRounding = 1e-6;

void KernelCounts::setIn(ProgramCounts &counts, double rows) const {
  counts.computing = fixed + rows * perRow;
  counts.launches = launches;
  counts.growingLaunches = growingLaunches;
}

static double getSum(const KernelSeconds &kernels) {
  return std::accumulate(kernels.begin(), kernels.end(), 0.0);
}

std::optional<KernelCounts>
heddle::fitKernels(const std::map<int64_t, KernelSeconds> &programs,
                   double launch) {
  if (programs.size() < 2)
    return std::nullopt;
  const auto &[rows, many] = *programs.rbegin();
  const auto &[fewerRows, few] = *std::next(programs.rbegin());
  if (few.size() != many.size())
    return std::nullopt;
  // The time of a kernel is convex in its rows, so it grows by no less later.
  KernelCounts counts;
  counts.perRow = (getSum(many) - getSum(few)) / double(rows - fewerRows);
  auto getLaunches = [&](const KernelSeconds &kernels) {
    return double(kernels.size()) * launch;
  };
  counts.launches = counts.fixed = std::numeric_limits<double>::infinity();
  for (const auto &[_, kernels] : programs)
    counts.launches = std::min(counts.launches, getLaunches(kernels));
  for (const auto &[ownRows, kernels] : programs) {
    double further = getLaunches(kernels) - counts.launches;
    counts.fixed = std::min(counts.fixed, getSum(kernels) - further -
                                              counts.perRow * double(ownRows));
  }
  if (counts.fixed < 0)
    return std::nullopt;
  for (auto [fewer, more] : llvm::zip(few, many))
    counts.growingLaunches += more > fewer * (1 + kRounding) ? launch : 0;
  counts.growingLaunches = std::min(counts.growingLaunches, counts.launches);
  return counts;
}

std::optional<KernelCounts> heddle::measureKernelCounts(
    llvm::function_ref<llvm::Expected<KernelSeconds>(int64_t rows)> measure,
    double launch) {
  std::map<int64_t, KernelSeconds> programs;
  size_t last = 0;
  for (int64_t rows = 1; rows <= kMostRows; rows *= 2) {
    llvm::Expected<KernelSeconds> kernels = measure(rows);
    if (!kernels) {
      llvm::consumeError(kernels.takeError());
      return std::nullopt;
    }
    bool isSame = rows > 1 && kernels->size() == last;
    last = kernels->size();
    programs.emplace(rows, std::move(*kernels));
    if (isSame)
      break;
  }
  return fitKernels(programs, launch);
}
