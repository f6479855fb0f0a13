//===- CallTimes.cpp - Times of calls on an emulated device ---------------===//

#include "device/CallTimes.h"
#include "heddle/Support/AttentionPairs.h"

#include <algorithm>
#include <optional>
#include <string>

namespace heddle::runtime {

/// Operations of an exponential or the like, as the compiler counts them.
static constexpr double transcendental = 10;

/// Element types come from generated code as integers.
static double bytesOf(int32_t type) {
  return double(byteSize(static_cast<DType>(type)));
}

CallWork workOf(const heddle_rt_matmul_desc &desc) {
  auto m = double(desc.m), n = double(desc.n), k = double(desc.k);
  double a = m * k, b = k * n, c = m * n, products = m * n * k;
  double bias = desc.bias_type < 0 ? 0 : n;
  for (int32_t i = 0; i < desc.num_loops; ++i) {
    const heddle_rt_matmul_loop &loop = desc.loops[i];
    auto extent = double(loop.extent);
    products *= extent;
    a *= loop.a_stride ? extent : 1;
    b *= loop.b_stride ? extent : 1;
    c *= loop.c_stride ? extent : 1;
    bias *= desc.bias_strides[i] ? extent : 1;
  }
  CallWork work;
  work.flops = 2 * products + (bias > 0 ? c : 0);
  work.bytes = a * bytesOf(desc.a_type) + b * bytesOf(desc.b_type) +
               (desc.accumulate ? 2 : 1) * c * bytesOf(desc.c_type) +
               (bias > 0 ? bias * bytesOf(desc.bias_type) : 0);
  return work;
}

/// Returns the number of scores that an attention computes. Keys that causality
/// or the window hides from a query do not count.
static double scoresOf(const heddle_rt_attention_desc &desc) {
  std::optional<int64_t> window;
  if (desc.window > 0)
    window = desc.window;
  int64_t pairs =
      countAttentionPairs(desc.queries, desc.keys, desc.causal != 0, window);
  return double(desc.batch * desc.groups * desc.group_size) * double(pairs);
}

/// Returns the bytes of `queryTensors` tensors of the queries' shape, of
/// `keyTensors` of the keys' shape, and of the logarithms of sums.
static double attentionBytes(const heddle_rt_attention_desc &desc,
                             double queryTensors, double keyTensors) {
  double rows =
      double(desc.batch * desc.queries * desc.groups) * double(desc.group_size);
  double keys = double(desc.batch * desc.keys * desc.groups);
  return (queryTensors * rows + keyTensors * keys) * double(desc.head) *
             bytesOf(desc.type) +
         rows * sizeof(float);
}

// Two products a score: q k^T and p v.
CallWork workOfAttention(const heddle_rt_attention_desc &desc) {
  return {scoresOf(desc) * (4 * double(desc.head) + transcendental),
          attentionBytes(desc, 2, 2)};
}

// Five products a score: q k^T again, do v^T, and those that give dq, dk, dv.
CallWork workOfAttentionGrad(const heddle_rt_attention_desc &desc) {
  return {scoresOf(desc) * (10 * double(desc.head) + transcendental),
          attentionBytes(desc, 4, 4)};
}

// With `accumulate` only the rows that the ids name are written, else the whole
// table.
CallWork workOfEmbeddingGrad(int64_t numIds, DType type, int64_t width,
                             int64_t tableRows, bool accumulate) {
  double elements = double(numIds) * double(width);
  double read = elements * double(byteSize(type)) +
                double(numIds) * double(sizeof(int32_t));
  double table = double(tableRows) * double(width);
  double written = accumulate ? std::min(table, elements) : table;
  return {elements, read + written * sizeof(float)};
}

CallWork workOfRotaryTable(int64_t half, int64_t rows) {
  double elements = double(half) * double(rows);
  return {2 * transcendental * elements, 2 * elements * sizeof(float)};
}

CallTimes::CallTimes(DeviceSpeed device, const heddle_rt_kernel_work *kernels)
    : device(std::move(device)) {
  for (; kernels && kernels->kernel; ++kernels)
    this->kernels[kernels->kernel] = {double(kernels->flops),
                                      double(kernels->bytes)};
}

double CallTimes::seconds(const CallWork &work, DType type) const {
  return device.launch + std::max(work.flops / device.peakOf(name(type)),
                                  work.bytes / device.memoryBandwidth);
}

std::optional<double> CallTimes::secondsOf(heddle_rt_kernel_fn kernel) const {
  auto known = kernels.find(kernel);
  if (known == kernels.end())
    return std::nullopt;
  return seconds(known->second);
}

} // namespace heddle::runtime
