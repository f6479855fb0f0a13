//===- IsaBaseline.cpp - Inner loops for baseline -------------------------===//

#define HEDDLE_RT_ISA baseline
#define HEDDLE_RT_VECTOR_BYTES 16
#include "backends/cpu/kernels/IsaBuild.h"

namespace heddle::runtime {

const IsaKernels &baselineKernels() {
  static constexpr IsaKernels kernels = {
      "baseline",          baseline::sumF32,    baseline::maxF32,
      baseline::bf16ToF32, baseline::f32ToBf16, &baseline::attention};
  return kernels;
}

} // namespace heddle::runtime
