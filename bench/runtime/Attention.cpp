//===- Attention.cpp - Attention of one device ----------------------------===//
//
// GFLOP/s count only products, and only those of scores that the mask does not
// hide. For each score, the forward pass has 2 products, which are 4 times the
// head size in FLOPs. The backward pass has 5 products, which are 10 times the
// head size.
//
//===----------------------------------------------------------------------===//

#include "backends/cpu/CpuDevice.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace {

/// Benchmark arguments: batch, sequence, groups, group size, head, bf16, cores.
struct Problem {
  explicit Problem(const benchmark::State &state, float dropout = 0)
      : device(0, int(state.range(6)), /*spin=*/true) {
    std::memset(&desc, 0, sizeof desc);
    desc.batch = state.range(0);
    desc.queries = desc.keys = state.range(1);
    desc.groups = state.range(2);
    desc.group_size = state.range(3);
    desc.head = state.range(4);
    desc.type = state.range(5) ? HEDDLE_RT_BF16 : HEDDLE_RT_F32;
    desc.causal = 1;
    desc.scale = 1 / std::sqrt(float(desc.head));
    desc.dropout = dropout;
    desc.global_queries = desc.global_keys = desc.queries;
    desc.global_groups = desc.groups;
    desc.global_group_size = desc.group_size;
    // Each tensor is [batch, row, group, member, head].
    int64_t kv = desc.groups * desc.head, q = kv * desc.group_size;
    desc.q_head_stride = desc.dq_head_stride = desc.head;
    desc.q_group_stride = desc.dq_group_stride = desc.head * desc.group_size;
    desc.q_row_stride = desc.dq_row_stride = q;
    desc.q_batch_stride = desc.dq_batch_stride = q * desc.queries;
    for (int64_t *stride : {&desc.k_group_stride, &desc.v_group_stride,
                            &desc.dk_group_stride, &desc.dv_group_stride})
      *stride = desc.head;
    for (int64_t *stride : {&desc.k_row_stride, &desc.v_row_stride,
                            &desc.dk_row_stride, &desc.dv_row_stride})
      *stride = kv;
    for (int64_t *stride : {&desc.k_batch_stride, &desc.v_batch_stride,
                            &desc.dk_batch_stride, &desc.dv_batch_stride})
      *stride = kv * desc.keys;
    auto elements = size_t(desc.q_batch_stride * desc.batch);
    for (std::vector<uint32_t> *buffer :
         {&queries, &keys, &values, &output, &outputGrad, &dq, &dk, &dv}) {
      buffer->resize(elements);
      for (size_t i = 0; i < elements; ++i) {
        // Values in [-1, 1), as one f32 or as two equal bf16.
        float value = float(int(i * 2654435761u >> 16) - 32768) / 32768.0f;
        auto bits = __builtin_bit_cast(uint32_t, value);
        (*buffer)[i] =
            desc.type == HEDDLE_RT_F32 ? bits : (bits >> 16) * 0x10001u;
      }
    }
    lse.resize(
        size_t(desc.batch * desc.queries * desc.groups * desc.group_size));
  }
  void forward() {
    heddle_rt_attention(&device, 0, &desc, &offsets, &step, nullptr,
                        queries.data(), keys.data(), values.data(),
                        output.data(), lse.data());
    heddle_rt_synchronize(&device);
  }
  void backward() {
    heddle_rt_attention_grad(&device, 0, &desc, &offsets, &step, nullptr,
                             queries.data(), keys.data(), values.data(),
                             output.data(), lse.data(), outputGrad.data(),
                             dq.data(), dk.data(), dv.data());
    heddle_rt_synchronize(&device);
  }
  void report(benchmark::State &state, double perScore) const {
    double rows = double(desc.batch * desc.groups * desc.group_size);
    double scores = rows * double(desc.queries) * double(desc.queries + 1) / 2;
    state.counters["GFLOP/s"] =
        benchmark::Counter(scores * double(desc.head) * perScore * 1e-9,
                           benchmark::Counter::kIsIterationInvariantRate);
  }

  heddle::runtime::CpuDevice device;
  heddle_rt_attention_desc desc;
  heddle_rt_attention_offsets offsets{0, 0, 0, 0, 0};
  int64_t step = 1;
  std::vector<uint32_t> queries, keys, values, output, outputGrad, dq, dk, dv;
  std::vector<float> lse;
};

void attentionForward(benchmark::State &state) {
  Problem problem(state);
  problem.forward();
  for ([[maybe_unused]] auto _ : state)
    problem.forward();
  problem.report(state, 4);
}

void attentionBackward(benchmark::State &state) {
  Problem problem(state);
  problem.forward();
  problem.backward();
  for ([[maybe_unused]] auto _ : state)
    problem.backward();
  problem.report(state, 10);
}

void attentionForwardDropout(benchmark::State &state) {
  Problem problem(state, 0.1f);
  problem.forward();
  for ([[maybe_unused]] auto _ : state)
    problem.forward();
  problem.report(state, 4);
}

void problems(benchmark::internal::Benchmark *bench) {
  bench->ArgNames({"B", "S", "G", "R", "D", "bf16", "cores"})
      ->Args({4, 1024, 12, 1, 64, 0, 1})
      ->Args({4, 1024, 12, 1, 64, 1, 1})
      ->Args({4, 256, 12, 1, 64, 0, 1})
      ->Args({4, 256, 12, 1, 64, 0, 2})
      ->Args({1, 2048, 8, 4, 64, 0, 1})
      ->Args({1, 1024, 8, 4, 128, 0, 1})
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

BENCHMARK(attentionForward)->Apply(problems);
BENCHMARK(attentionBackward)->Apply(problems);
BENCHMARK(attentionForwardDropout)->Apply(problems);

} // namespace
