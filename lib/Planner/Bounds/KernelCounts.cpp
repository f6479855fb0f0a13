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
  auto isDifferent = [](const auto &program, const auto &next) {
    return program.second.size() != next.second.size();
  };
  auto first = programs.begin();
  while (first != programs.end() && std::next(first) != programs.end() &&
         isDifferent(*first, *std::next(first)))
    ++first;
  if (first == programs.end() || std::next(first) == programs.end())
    return std::nullopt;
  const auto &[fewerRows, few] = *first;
  const auto &[rows, many] = *std::next(first);
  // The time of a kernel is convex in its rows, so it grows by no less later.
  // Between these two programs, it may take less than a line through them.
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
  const KernelSeconds &most = programs.rbegin()->second;
  for (auto [fewer, more] : llvm::zip(few, most))
    counts.growingLaunches += more > fewer * (1 + kRounding) ? launch : 0;
  counts.growingLaunches = std::min(counts.growingLaunches, counts.launches);
  return counts;
}

std::optional<KernelCounts> heddle::measureKernelCounts(
    llvm::function_ref<llvm::Expected<KernelSeconds>(int64_t rows)> measure,
    double launch) {
  std::map<int64_t, KernelSeconds> programs;
  auto add = [&](int64_t rows) {
    llvm::Expected<KernelSeconds> kernels = measure(rows);
    if (!kernels) {
      llvm::consumeError(kernels.takeError());
      return false;
    }
    programs.emplace(rows, std::move(*kernels));
    return true;
  };
  auto haveSame = [&](int64_t rows, int64_t others) {
    return programs.at(rows).size() == programs.at(others).size();
  };
  if (!add(1))
    return std::nullopt;
  for (int64_t rows = 2; rows <= kMostRows; rows *= 2) {
    if (!add(rows))
      return std::nullopt;
    if (!haveSame(rows / 2, rows))
      continue;
    // No number of rows lies between neighbours.
    if (rows > 2 && (!add(rows / 2 + 1) || !haveSame(rows / 2 + 1, rows)))
      return std::nullopt;
    return fitKernels(programs, launch);
  }
  return std::nullopt;
}
