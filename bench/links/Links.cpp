//===- Links.cpp - Emulated links: time asked and time measured -----------===//
//
// Four ranks on a network of one level (20 microseconds, 1 GB/s). "asked" is
// the time that the network model states. "over" is the excess of the measured
// mean, as a fraction of that time. The excess comes from wake-ups of threads,
// and on a machine with fewer cores than ranks also from copies. Collectives
// that run at once may be faster than asked, when the latency of one overlaps
// the bytes of another.
//
//===----------------------------------------------------------------------===//

#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "communicators/EmulatedLinks.h"

#include <benchmark/benchmark.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

using namespace heddle::runtime;

namespace {

constexpr int64_t ranks = 4;

/// Four ranks on the network: dp 2 x tp 2, all ranks (group 0) and pairs over
/// dp (group 1).
class World {
public:
  World()
      : network(
            *Network::create({"bench", {{"all", ranks, 20e-6, 1e9}}}, ranks)) {
    std::vector<MeshAxis> mesh{{"dp", 2}, {"tp", 2}};
    std::vector<GroupInfo> groups{{{0, 1}, {}}, {{0}, {}}};
    // Two streams, for two collectives of a rank at once.
    std::vector<std::vector<ThreadPool *>> pools(size_t(ranks), {&pool, &pool});
    communicators =
        emulateLinks(makeThreadCommunicators(mesh, groups, pools,
                                             {std::chrono::seconds(60), false}),
                     mesh, groups, network);
  }

  /// Calls body(rank, communicator) `repeats` times in a row on each rank and
  /// on each of the first `numStreams` streams at once. Returns the seconds of
  /// one call, or an error if one failed.
  template <typename Body>
  Expected<double> measure(size_t numStreams, Body &&body) {
    constexpr int repeats = 20;
    std::chrono::steady_clock::time_point begin;
    std::barrier start(ptrdiff_t(numStreams) * ranks, [&]() noexcept {
      begin = std::chrono::steady_clock::now();
    });
    std::atomic<bool> failed{false};
    std::vector<std::thread> threads;
    for (size_t stream = 0; stream < numStreams; ++stream)
      for (int32_t rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, stream, rank] {
          start.arrive_and_wait();
          for (int i = 0; i < repeats; ++i)
            if (!body(rank, *communicators[size_t(rank)][stream]).ok())
              failed = true;
        });
    for (std::thread &thread : threads)
      thread.join();
    if (failed)
      return error("a call failed");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
               .count() /
           repeats;
  }

private:
  ThreadPool pool{1, false}; // stateless, so ranks share it
  std::shared_ptr<Network> network;
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators;
};

/// Runs `body` and reports its time beside the time that the network model
/// states.
template <typename Body>
void compare(benchmark::State &state, double asked, size_t numStreams,
             Body &&body) {
  World world;
  double sum = 0;
  for ([[maybe_unused]] auto _ : state) {
    Expected<double> seconds = world.measure(numStreams, body);
    if (!seconds.ok())
      return state.SkipWithError(std::string(seconds.message()).c_str());
    state.SetIterationTime(*seconds);
    sum += *seconds;
  }
  state.counters["asked ms"] = asked * 1e3;
  state.counters["over"] = sum / double(state.iterations()) / asked - 1;
}

/// Benchmark arguments: KiB of each rank's buffer; all_reduces of a rank at
/// once, which share its links.
void allReduce(benchmark::State &state) {
  int64_t bytes = state.range(0) * 1024;
  auto streams = size_t(state.range(1));
  double asked =
      6 * 20e-6 + double(streams) * 6 * double(bytes) / double(ranks) / 1e9;
  compare(state, asked, streams, [&](int32_t, Communicator &communicator) {
    static thread_local std::vector<char> buffer;
    buffer.resize(size_t(bytes));
    return communicator.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32,
                                  buffer.data(), buffer.data(), bytes / 4);
  });
}

/// Two of the ranks send to the two others. Benchmark argument: KiB.
void transfer(benchmark::State &state) {
  int64_t bytes = state.range(0) * 1024;
  compare(state, 20e-6 + double(bytes) / 1e9, 1,
          [&](int32_t rank, Communicator &communicator) {
            static thread_local std::vector<char> buffer;
            buffer.resize(size_t(bytes));
            bool isReceiver = rank >= 2;
            return isReceiver ? communicator.recv(1, 0, HEDDLE_RT_I8,
                                                  buffer.data(), bytes)
                              : communicator.send(1, 1, HEDDLE_RT_I8,
                                                  buffer.data(), bytes);
          });
}

BENCHMARK(allReduce)
    ->ArgNames({"KiB", "at once"})
    ->ArgsProduct({{4, 64, 1024, 16384}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(10)
    ->UseManualTime();
BENCHMARK(transfer)
    ->ArgNames({"KiB"})
    ->ArgsProduct({{4, 64, 1024, 16384}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(10)
    ->UseManualTime();

} // namespace
