//===- Overlap.cpp - A collective beside a product ------------------------===//
//
// Runs the programs of overlap.mlir on two devices of one core each. The links
// are emulated, so that the all-reduce takes a chosen multiple ("ratio") of the
// product's time. If the two overlap completely, they take together as long as
// the longer one alone. The column "of longer" is the quotient of these times,
// which is then 1.
//
// Then runs a lone pair, a product and the all-reduce of its result. The next
// op needs the sum, so nothing else can run beside the all-reduce. The
// scheduler cuts both into row chunks, so that one chunk is summed while the
// next one is computed.
//
// Times are medians, in milliseconds. The programs take turns, so that other
// work on the machine slows all of them.
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
constexpr double bytes = 4 << 20;     // the buffer of the all-reduce
constexpr double pairBytes = 8 << 20; // the buffer of the pair's all-reduce
constexpr double latency = 20e-6;     // seconds of a message

double median(std::vector<double> values) {
  auto middle = values.begin() + ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A program of a session.
struct Program {
  Session *session;
  const char *name;
};

/// Returns the median seconds of each program.
template <size_t n>
Expected<std::array<double, n>>
measure(const std::array<Program, n> &programs) {
  std::array<std::vector<double>, n> seconds;
  for (int round = -2; round < rounds; ++round) // the first two warm up
    for (size_t i = 0; i < n; ++i) {
      auto begin = std::chrono::steady_clock::now();
      HEDDLE_RT_RETURN_IF_ERROR(programs[i].session->run(
          programs[i].name, std::vector<ConstBytes>(), std::vector<Bytes>()));
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

/// Returns a network in which an all-reduce of two ranks takes the given time.
NetworkInfo makeNetwork(double reducedBytes, double seconds) {
  // An all-reduce of two ranks has two steps. In each step a rank sends half of
  // the buffer.
  double bandwidth = reducedBytes / (seconds - 2 * latency);
  return NetworkInfo{"bench", {{"all", 2, latency, bandwidth}}};
}

Status runPair(SessionOptions options) {
  auto plain = Session::load(HEDDLE_PAIR_ARTIFACT, options);
  HEDDLE_RT_RETURN_IF_ERROR(plain.status());
  auto alone = measure<1>({{{plain->get(), "pair"}}});
  HEDDLE_RT_RETURN_IF_ERROR(alone.status());
  plain->reset();
  options.network = makeNetwork(pairBytes, (*alone)[0]);
  auto whole = Session::load(HEDDLE_PAIR_ARTIFACT, options);
  HEDDLE_RT_RETURN_IF_ERROR(whole.status());
  auto chunked = Session::load(HEDDLE_CHUNKED_PAIR_ARTIFACT, options);
  HEDDLE_RT_RETURN_IF_ERROR(chunked.status());
  auto times = measure<2>({{{whole->get(), "pair"}, {chunked->get(), "pair"}}});
  HEDDLE_RT_RETURN_IF_ERROR(times.status());
  auto [first, second] = *times;
  std::printf("\nlone pair: %.2f ms without a network; in turn %.2f, in row "
              "chunks %.2f: %.2f x\n",
              (*alone)[0] * 1e3, first * 1e3, second * 1e3, first / second);
  return Status::success();
}

Status run() {
  SessionOptions options;
  options.coresPerDevice = 1;
  auto plain = Session::load(HEDDLE_OVERLAP_ARTIFACT, options);
  HEDDLE_RT_RETURN_IF_ERROR(plain.status());
  auto alone =
      measure<2>({{{plain->get(), "product"}, {plain->get(), "collective"}}});
  HEDDLE_RT_RETURN_IF_ERROR(alone.status());
  plain->reset();
  double product = (*alone)[0];
  std::printf("without a network: product %.2f ms, collective %.2f ms\n\n",
              product * 1e3, (*alone)[1] * 1e3);
  std::printf("%5s %10s %12s %10s %10s\n", "ratio", "product", "collective",
              "both", "of longer");
  for (double ratio : {0.5, 1.0, 2.0}) {
    options.network = makeNetwork(bytes, ratio * product);
    auto session = Session::load(HEDDLE_OVERLAP_ARTIFACT, options);
    HEDDLE_RT_RETURN_IF_ERROR(session.status());
    auto times = measure<3>({{{session->get(), "product"},
                              {session->get(), "collective"},
                              {session->get(), "both"}}});
    HEDDLE_RT_RETURN_IF_ERROR(times.status());
    auto [first, second, both] = *times;
    std::printf("%5.1f %10.2f %12.2f %10.2f %10.3f\n", ratio, first * 1e3,
                second * 1e3, both * 1e3, both / std::max(first, second));
  }
  options.network.reset();
  return runPair(options);
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
