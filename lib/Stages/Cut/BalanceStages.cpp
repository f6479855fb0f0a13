//===- BalanceStages.cpp - Stages of equal work ---------------------------===//

#include "FunctionStages.h"
#include <limits>

using namespace mlir;
using namespace heddle;

SmallVector<int64_t> heddle::balanceStages(ArrayRef<double> work,
                                           ArrayRef<double> bytes,
                                           int64_t stages) {
  // A byte that crosses counts as so many operations. Links are slower than
  // this by much, so among cuts of about equal work the smallest one wins.
  constexpr double kWorkOfByte = 100;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto count = int64_t(work.size());
  std::vector<double> sums(count + 1);
  for (int64_t i = 0; i < count; ++i)
    sums[i + 1] = sums[i] + work[i];
  // The least cost of the most expensive of `k` stages that hold the first `i`
  // ops, and the first op of the last of these stages.
  std::vector<std::vector<double>> cost(
      stages + 1, std::vector<double>(count + 1, kInfinity));
  std::vector<std::vector<int64_t>> first(stages + 1,
                                          std::vector<int64_t>(count + 1));
  cost[0][0] = 0;
  for (int64_t k = 1; k <= stages; ++k)
    for (int64_t i = k; i <= count; ++i)
      for (int64_t j = k - 1; j < i; ++j) {
        double crossing = j > 0 ? bytes[j] * kWorkOfByte : 0;
        double most = std::max(cost[k - 1][j], sums[i] - sums[j] + crossing);
        if (most < cost[k][i]) {
          cost[k][i] = most;
          first[k][i] = j;
        }
      }
  SmallVector<int64_t> result(count);
  int64_t end = count;
  for (int64_t k = stages; k >= 1; --k) {
    int64_t begin = first[k][end];
    for (int64_t i = begin; i < end; ++i)
      result[i] = k - 1;
    end = begin;
  }
  return result;
}
