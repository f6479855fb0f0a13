//===- program.cpp - A hand-written artifact to test the trainer with -----===//
//
// Programs in the form that the compiler writes, for a bigram model: the logits
// of the next token are a row of W [V, V]. The optimizer is plain gradient
// descent. The batch is split over the devices of the axis "dp"; W is
// replicated. Every program exists for one and for two devices.
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/abi.h"

#include "program.h"

#include <cmath>
#include <cstring>

using namespace bigram;

namespace {

/// The variables, in the order of the manifest.
struct Variables {
  float *weight;         ///< [V, V]
  int64_t *step;         ///< completed steps
  float *weightGradient; ///< [V, V], of the sum of losses
  float *lossSum, *count;

  explicit Variables(const heddle_rt_frame *frame)
      : weight(reinterpret_cast<float *>(frame->variables[0])),
        step(reinterpret_cast<int64_t *>(frame->variables[1])),
        weightGradient(reinterpret_cast<float *>(frame->variables[2])),
        lossSum(reinterpret_cast<float *>(frame->variables[3])),
        count(reinterpret_cast<float *>(frame->variables[4])) {}
};

/// Computes this device's part of the loss sum, the label count and the
/// gradient, and adds the sum of the parts of all devices to the accumulators.
/// `gradient` and `logits` may be null.
heddle_rt_status forwardBackward(heddle_rt_device *device,
                                 const heddle_rt_frame *frame, int devices,
                                 float *gradient, float *lossSum, float *count,
                                 float *logits) {
  Variables variables(frame);
  auto *tokens = reinterpret_cast<const int32_t *>(frame->arguments[0]);
  auto *targets = reinterpret_cast<const int32_t *>(frame->arguments[1]);
  auto *sums = reinterpret_cast<float *>(frame->arena);
  std::memset(sums, 0, (V * V + 2) * sizeof(float));
  for (int i = 0; i < B / devices * S; ++i) {
    const float *row = variables.weight + tokens[i] * V;
    if (logits)
      std::memcpy(logits + i * V, row, V * sizeof(float));
    if (targets[i] < 0)
      continue;
    float total = 0;
    for (int v = 0; v < V; ++v)
      total += std::exp(row[v]);
    sums[V * V] += std::log(total) - row[targets[i]];
    sums[V * V + 1] += 1;
    for (int v = 0; v < V; ++v)
      sums[tokens[i] * V + v] +=
          std::exp(row[v]) / total - (v == targets[i] ? 1 : 0);
  }
  heddle_rt_status status = 0;
  if (devices > 1)
    status = heddle_rt_all_reduce(device, 0, 0, HEDDLE_RT_SUM, HEDDLE_RT_F32,
                                  sums, sums, V * V + 2);
  for (int i = 0; gradient && i < V * V; ++i)
    gradient[i] += sums[i];
  *lossSum += sums[V * V];
  *count += sums[V * V + 1];
  return status;
}

heddle_rt_status accumulate(heddle_rt_device *device,
                            const heddle_rt_frame *frame, int devices) {
  Variables variables(frame);
  return forwardBackward(device, frame, devices, variables.weightGradient,
                         variables.lossSum, variables.count, nullptr);
}

heddle_rt_status update(const heddle_rt_frame *frame) {
  Variables variables(frame);
  float rate = 6.0f, squares = 0;
  for (int i = 0; i < V * V; ++i) {
    float gradient = variables.weightGradient[i] / *variables.count;
    squares += gradient * gradient;
    variables.weight[i] -= rate * gradient;
  }
  float loss = *variables.lossSum / *variables.count, norm = std::sqrt(squares);
  std::memcpy(frame->results[0], &loss, sizeof(loss));
  std::memcpy(frame->results[1], &norm, sizeof(norm));
  std::memcpy(frame->results[2], &rate, sizeof(rate));
  std::memset(variables.weightGradient, 0, V * V * sizeof(float));
  *variables.lossSum = *variables.count = 0;
  *variables.step += 1;
  return 0;
}

heddle_rt_status evaluate(heddle_rt_device *device,
                          const heddle_rt_frame *frame, int devices) {
  float lossSum = 0, count = 0;
  heddle_rt_status status =
      forwardBackward(device, frame, devices, nullptr, &lossSum, &count,
                      reinterpret_cast<float *>(frame->results[2]));
  std::memcpy(frame->results[0], &lossSum, sizeof(lossSum));
  std::memcpy(frame->results[1], &count, sizeof(count));
  return status;
}

heddle_rt_status gradients(heddle_rt_device *device,
                           const heddle_rt_frame *frame, int devices) {
  float lossSum = 0, count = 0;
  auto *gradient = reinterpret_cast<float *>(frame->results[2]);
  std::memset(gradient, 0, V * V * sizeof(float));
  heddle_rt_status status =
      forwardBackward(device, frame, devices, gradient, &lossSum, &count,
                      reinterpret_cast<float *>(frame->results[1]));
  float loss = lossSum / count;
  std::memcpy(frame->results[0], &loss, sizeof(loss));
  for (int i = 0; i < V * V; ++i)
    gradient[i] /= count;
  return status;
}

heddle_rt_status step(heddle_rt_device *device, const heddle_rt_frame *frame,
                      int devices) {
  heddle_rt_status status = accumulate(device, frame, devices);
  return status ? status : update(frame);
}

} // namespace

#define BIGRAM_PROGRAMS(devices)                                               \
  heddle_rt_status step_##devices(heddle_rt_device *device,                    \
                                  const heddle_rt_frame *frame) {              \
    return step(device, frame, devices);                                       \
  }                                                                            \
  heddle_rt_status accumulate_##devices(heddle_rt_device *device,              \
                                        const heddle_rt_frame *frame) {        \
    return accumulate(device, frame, devices);                                 \
  }                                                                            \
  heddle_rt_status update_##devices(heddle_rt_device *device,                  \
                                    const heddle_rt_frame *frame) {            \
    return update(frame);                                                      \
  }                                                                            \
  heddle_rt_status evaluate_##devices(heddle_rt_device *device,                \
                                      const heddle_rt_frame *frame) {          \
    return evaluate(device, frame, devices);                                   \
  }                                                                            \
  heddle_rt_status gradients_##devices(heddle_rt_device *device,               \
                                       const heddle_rt_frame *frame) {         \
    return gradients(device, frame, devices);                                  \
  }

extern "C" {
BIGRAM_PROGRAMS(1)
BIGRAM_PROGRAMS(2)
}
