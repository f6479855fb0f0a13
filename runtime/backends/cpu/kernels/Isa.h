//===- Isa.h - Inner loops, one build for each instruction set --*- C++ -*-===//
//
// The inner loops that must use the widest vectors of the machine are compiled
// once for each instruction set (Isa*.cpp) and chosen once by cpuid.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CPU_KERNELS_ISA_H
#define HEDDLE_RT_BACKENDS_CPU_KERNELS_ISA_H

#include <cstdint>

namespace heddle::runtime {

struct AttentionKernels;

struct IsaKernels {
  const char *name;
  /// accumulator[i] += in[i]
  void (*sumF32)(float *accumulator, const float *in, int64_t count);
  /// accumulator[i] = max(accumulator[i], in[i]); a NaN stays.
  void (*maxF32)(float *accumulator, const float *in, int64_t count);
  void (*bf16ToF32)(const uint16_t *from, float *to, int64_t count);
  /// Rounds to nearest, ties to even; a NaN stays one.
  void (*f32ToBf16)(const float *from, uint16_t *to, int64_t count);
  const AttentionKernels *attention;
};

/// The inner loops for the widest instruction set of this machine. The
/// environment variable HEDDLE_RT_ISA ("baseline", "avx2", "avx512") lowers the
/// choice, for tests.
const IsaKernels &isaKernels();

/// The inner loops of that name; null if they were not built or do not run on
/// this machine.
const IsaKernels *findIsaKernels(const char *name);

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_KERNELS_ISA_H
