//===- IsaBuild.h - Inner loops of one instruction set ----------*- C++ -*-===//
//
// Included by Isa*.cpp. Each of these files is compiled for its own instruction
// set. It first defines HEDDLE_RT_ISA (the namespace) and
// HEDDLE_RT_VECTOR_BYTES. The inner loops must not use templates of the
// standard library: the linker keeps one copy of an inline function, which
// could be the copy compiled for the widest instruction set.
//
//===----------------------------------------------------------------------===//

#include "kernels/Attention.h"
#include "kernels/InnerVector.h"
#include "kernels/Isa.h"

#include <stdint.h>

namespace heddle::runtime {
namespace HEDDLE_RT_ISA {

static void sumF32(float *accumulator, const float *in, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    accumulator[i] += in[i];
}

static void maxF32(float *accumulator, const float *in, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float a = accumulator[i], b = in[i];
    accumulator[i] = a >= b || a != a ? a : b;
  }
}

static void bf16ToF32(const uint16_t *from, float *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = __builtin_bit_cast(float, uint32_t(from[i]) << 16);
}

static void f32ToBf16(const float *from, uint16_t *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = __builtin_bit_cast(uint32_t, from[i]);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40;
    to[i] = uint16_t((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
}

} // namespace HEDDLE_RT_ISA
} // namespace heddle::runtime

#include "kernels/InnerAttention.h"

#include "kernels/InnerAttentionForward.h"

#include "kernels/InnerAttentionBackward.h"
