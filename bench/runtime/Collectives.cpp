//===- Collectives.cpp - Collectives among threads of one process ---------===//
//
// In one iteration all ranks run `repeats` all_reduces in a row. "bus" is a
// bandwidth that is comparable for any number n of ranks: 2 (n - 1) / n of the
// buffer's bytes for each all_reduce, over its time.
//
//===----------------------------------------------------------------------===//

#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "backends/cpu/threads/ThreadPool.h"

#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace heddle::runtime;

namespace {

/// Benchmark arguments: ranks, KiB of each rank's buffer, bf16.
void allReduce(benchmark::State &state) {
  constexpr int repeats = 20;
  int64_t ranks = state.range(0), bytes = state.range(1) * 1024;
  DType type = state.range(2) ? HEDDLE_RT_BF16 : HEDDLE_RT_F32;
  bool spin = ranks <= int64_t(std::thread::hardware_concurrency());
  ThreadPool pool(1, false); // stateless, so ranks share it
  std::vector<std::vector<ThreadPool *>> pools(size_t(ranks), {&pool});
  auto communicators =
      makeThreadCommunicators({{"x", ranks}}, {GroupInfo{{0}, {}}}, pools,
                              {std::chrono::seconds(60), spin});
  std::vector<std::vector<char>> buffers(static_cast<size_t>(ranks),
                                         std::vector<char>(size_t(bytes)));
  std::atomic<bool> failed{false};
  for ([[maybe_unused]] auto _ : state) {
    std::vector<std::thread> threads;
    threads.reserve(size_t(ranks));
    for (size_t rank = 0; rank < size_t(ranks); ++rank)
      threads.emplace_back([&, rank] {
        for (int i = 0; i < repeats; ++i)
          if (!communicators[rank][0]
                   ->allReduce(0, HEDDLE_RT_SUM, type, buffers[rank].data(),
                               buffers[rank].data(),
                               bytes / int64_t(byteSize(type)))
                   .ok())
            failed = true;
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  if (failed)
    state.SkipWithError("an all_reduce failed");
  state.counters["each"] = benchmark::Counter(
      repeats, benchmark::Counter::kIsIterationInvariantRate |
                   benchmark::Counter::kInvert);
  state.counters["bus bytes/s"] = benchmark::Counter(
      repeats * 2.0 * double(ranks - 1) / double(ranks) * double(bytes),
      benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(allReduce)
    ->ArgNames({"ranks", "KiB", "bf16"})
    ->ArgsProduct({{2, 4, 8}, {4, 384, 3072}, {0, 1}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

} // namespace
