//===- Overlap.cpp - A collective beside a product ------------------------===//
//
// Runs the programs of overlap.mlir on two devices of one core each. The links
// are emulated, so that the all-reduce takes a chosen multiple ("ratio") of the
// product's time. If it hides behind the product, both at once take as long as
// the longer of the two: "of longer" is 1.
//
// Times are medians, in milliseconds. The three programs take turns, so that
// other work on the machine slows all of them.
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

using namespace heddle::runtime;

namespace {

constexpr int rounds = 31;
constexpr double bytes = 4 << 20; // of the all-reduce
constexpr double latency = 20e-6; // of a message

double median(std::vector<double> values) {
  auto middle = values.begin() + ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the median seconds of each program.
template <size_t n>
Expected<std::array<double, n>>
measure(Session &session, const std::array<const char *, n> &programs) {
  std::array<std::vector<double>, n> seconds;
  for (int round = -2; round < rounds; ++round) // the first two warm up
    for (size_t i = 0; i < n; ++i) {
      auto begin = std::chrono::steady_clock::now();
      HEDDLE_RT_RETURN_IF_ERROR(session.run(
          programs[i], std::vector<ConstBytes>(), std::vector<Bytes>()));
      if (round >= 0)
        seconds[i].push_back(std::chrono::duration<double>(
                                 std::chrono::steady_clock::now() - begin)
                                 .count());
    }
  std::array<double, n> medians;
  for (size_t i = 0; i < n; ++i)
    medians[i] = median(seconds[i]);
  return medians;
}

Status run() {
  SessionOptions options;
  options.coresPerDevice = 1;
  auto plain = Session::load(HEDDLE_OVERLAP_ARTIFACT, options);
  HEDDLE_RT_RETURN_IF_ERROR(plain.status());
  auto alone = measure<2>(**plain, {"product", "collective"});
  HEDDLE_RT_RETURN_IF_ERROR(alone.status());
  plain->reset();
  double product = (*alone)[0];
  std::printf("without a network: product %.2f ms, collective %.2f ms\n\n",
              product * 1e3, (*alone)[1] * 1e3);
  std::printf("%5s %10s %12s %10s %10s\n", "ratio", "product", "collective",
              "both", "of longer");
  for (double ratio : {0.5, 1.0, 2.0}) {
    // Two ranks reduce in two steps, and each sends the buffer's size in all.
    double bandwidth = bytes / (ratio * product - 2 * latency);
    options.network = NetworkInfo{"bench", {{"all", 2, latency, bandwidth}}};
    auto session = Session::load(HEDDLE_OVERLAP_ARTIFACT, options);
    HEDDLE_RT_RETURN_IF_ERROR(session.status());
    auto times = measure<3>(**session, {"product", "collective", "both"});
    HEDDLE_RT_RETURN_IF_ERROR(times.status());
    auto [first, second, both] = *times;
    std::printf("%5.1f %10.2f %12.2f %10.2f %10.3f\n", ratio, first * 1e3,
                second * 1e3, both * 1e3, both / std::max(first, second));
  }
  return Status::success();
}

} // namespace

int main() {
  Status status = run();
  if (status.ok())
    return 0;
  std::fprintf(stderr, "overlap_bench: error: %s\n",
               std::string(status.message()).c_str());
  return 1;
}
