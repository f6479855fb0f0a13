//===- IsaAvx512.cpp - Inner loops for avx512 -----------------------------===//

#define HEDDLE_RT_ISA avx512
#define HEDDLE_RT_VECTOR_BYTES 64
#include "backends/cpu/kernels/IsaBuild.h"

namespace heddle::runtime {

const IsaKernels &avx512Kernels() {
  static constexpr IsaKernels kernels = {"avx512",          avx512::sumF32,
                                         avx512::maxF32,    avx512::bf16ToF32,
                                         avx512::f32ToBf16, &avx512::attention};
  return kernels;
}

} // namespace heddle::runtime
