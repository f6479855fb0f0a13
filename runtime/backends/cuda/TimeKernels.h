//===- TimeKernels.h - Times of single kernels ------------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_TIMEKERNELS_H
#define HEDDLE_RT_BACKENDS_CUDA_TIMEKERNELS_H

#include "backends/cuda/driver/Card.h"
#include "heddle_rt/kernel_times.h"

#include <span>

namespace heddle::runtime::cuda {

/// Measures kernels: see heddle_rt/kernel_times.h.
Expected<KernelTimes> timeKernels(Card &card,
                                  std::span<const LoadedKernel> kernels);

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_TIMEKERNELS_H
