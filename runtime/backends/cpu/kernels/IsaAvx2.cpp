//===- IsaAvx2.cpp - Inner loops for avx2 ---------------------------------===//

#define HEDDLE_RT_ISA avx2
#define HEDDLE_RT_VECTOR_BYTES 32
#include "backends/cpu/kernels/IsaBuild.h"

namespace heddle::runtime {

const IsaKernels &avx2Kernels() {
  static constexpr IsaKernels kernels = {"avx2",          avx2::sumF32,
                                         avx2::maxF32,    avx2::bf16ToF32,
                                         avx2::f32ToBf16, &avx2::attention};
  return kernels;
}

} // namespace heddle::runtime
