//===- Isa.h - Inner loops, one build for each instruction set --*- C++ -*-===//
//
// Inner loops that must use the widest vectors of the machine. They are
// compiled once for each instruction set (Isa*.cpp), and cpuid chooses among
// the builds once.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_KERNELS_ISA_H
#define HEDDLE_RT_KERNELS_ISA_H

#include <cstdint>

namespace heddle::runtime {

struct AttentionKernels;

struct IsaKernels {
  const char *name;
  /// accumulator[i] += in[i]
  void (*sumF32)(float *accumulator, const float *in, int64_t count);
  /// accumulator[i] = max(accumulator[i], in[i]); NaN if either is NaN.
  void (*maxF32)(float *accumulator, const float *in, int64_t count);
  void (*bf16ToF32)(const uint16_t *from, float *to, int64_t count);
  /// Rounds to nearest, ties to even. A NaN stays a NaN.
  void (*f32ToBf16)(const float *from, uint16_t *to, int64_t count);
  const AttentionKernels *attention;
};

/// Returns the inner loops for the widest instruction set of this machine. The
/// environment variable HEDDLE_RT_ISA ("baseline", "avx2", "avx512") chooses a
/// narrower one, for tests.
const IsaKernels &isaKernels();

/// Returns the inner loops of that name, or null if they were not built or do
/// not run on this machine.
const IsaKernels *findIsaKernels(const char *name);

/// Convert one f16 value. No inner loop uses these functions.
float f16ToF32(uint16_t bits);
uint16_t f32ToF16(float value);

} // namespace heddle::runtime

#endif // HEDDLE_RT_KERNELS_ISA_H
