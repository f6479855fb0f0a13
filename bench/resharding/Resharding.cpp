//===- Resharding.cpp - How long reshardings take to find -----------------===//
//
// resharding_bench measures how long it takes to find the reshardings between
// all pairs of layouts of a tensor of three dimensions, without and with
// partial sums. A planner of layouts asks for all these pairs.
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/Resharding.h"
#include "test/support/ListLayouts.h"
#include "llvm/ADT/STLExtras.h"

#include <benchmark/benchmark.h>

using namespace heddle;

namespace {

void allPairs(benchmark::State &state, std::vector<int64_t> mesh,
              bool withPartial) {
  // Enough servers for the largest mesh.
  Cluster cluster = llvm::cantFail(loadCluster("dgx-a100"));
  cluster.levels.back().count = 1024;
  auto topology = llvm::cantFail(MeshTopology::create(cluster, mesh));
  std::vector<TensorLayout> layouts = test::listLayouts(mesh.size(), 3, false);
  if (!withPartial)
    llvm::erase_if(layouts,
                   [](const TensorLayout &layout) { return layout.partial; });
  for (auto _ : state) {
    // A new planner has no graph cached.
    ReshardingPlanner planner(topology);
    for (const TensorLayout &from : layouts)
      for (const TensorLayout &to : layouts)
        benchmark::DoNotOptimize(
            planner.find({512, 2048, 4096}, /*elementBytes=*/2, from, to));
  }
  state.counters["pairs"] = double(layouts.size() * layouts.size());
}

BENCHMARK_CAPTURE(allPairs, 128x4x2, {128, 4, 2}, false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(allPairs, 16x8x8, {16, 8, 8}, false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(allPairs, 128x4x2_partial, {128, 4, 2}, true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(allPairs, 16x8x8_partial, {16, 8, 8}, true)
    ->Unit(benchmark::kMillisecond);

} // namespace
