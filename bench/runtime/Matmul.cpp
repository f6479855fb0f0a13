//===- Matmul.cpp - GPT-2's matrix products on one device -----------------===//
//
// The products of GPT-2 124M for batch 4 x 256: forward, the gradient of the
// input and the gradient of the weight. "small" is no product of the model.
//
//===----------------------------------------------------------------------===//

#include "backends/cpu/CpuDevice.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

namespace {

struct Product {
  const char *name;
  int64_t m, n, k;
  bool transposeA, transposeB;
};

constexpr Product products[] = {
    {"qkv", 1024, 2304, 768, false, false},
    {"projection", 1024, 768, 768, false, false},
    {"fc", 1024, 3072, 768, false, false},
    {"fc_proj", 1024, 768, 3072, false, false},
    {"fc_dgrad", 1024, 768, 3072, false, true},
    {"fc_wgrad", 768, 3072, 1024, true, false},
    {"fc_proj_wgrad", 3072, 768, 1024, true, false},
    {"head", 1024, 50257, 768, false, true},
    {"head_dgrad", 1024, 768, 50257, false, false},
    {"head_wgrad", 50257, 768, 1024, true, false},
    {"small", 128, 128, 128, false, false},
};

/// Benchmark arguments: product, bf16, cores.
void matmul(benchmark::State &state) {
  const Product &product = products[state.range(0)];
  bool bf16 = state.range(1);
  heddle::runtime::CpuDevice device(0, int(state.range(2)), /*spin=*/true);
  heddle_rt_matmul_desc desc;
  std::memset(&desc, 0, sizeof desc);
  desc.m = product.m, desc.n = product.n, desc.k = product.k;
  desc.a_row_stride = product.transposeA ? 1 : desc.k;
  desc.a_column_stride = product.transposeA ? desc.m : 1;
  desc.b_row_stride = product.transposeB ? 1 : desc.n;
  desc.b_column_stride = product.transposeB ? desc.k : 1;
  desc.c_row_stride = desc.n;
  desc.a_type = desc.b_type = bf16 ? HEDDLE_RT_BF16 : HEDDLE_RT_F32;
  desc.c_type = desc.a_type;
  desc.bias_type = -1;
  auto filled = [](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(i * 2654435761u % 1000) * 1e-3f;
    return values;
  };
  std::vector<float> a = filled(desc.m * desc.k), b = filled(desc.k * desc.n),
                     c(size_t(desc.m * desc.n));
  auto run = [&] {
    if (heddle_rt_matmul(&device, 0, &desc, a.data(), b.data(), c.data(),
                         nullptr) ||
        heddle_rt_synchronize(&device))
      state.SkipWithError("the product failed");
  };
  run();
  for ([[maybe_unused]] auto _ : state)
    run();
  state.SetLabel(product.name);
  state.counters["GFLOP/s"] = benchmark::Counter(
      2e-9 * double(desc.m) * double(desc.n) * double(desc.k),
      benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(matmul)
    ->ArgNames({"product", "bf16", "cores"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 10, 1), {0, 1}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

} // namespace
