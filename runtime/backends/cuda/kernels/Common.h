//===- Common.h - What the kernels of the library share -----------*- C -*-===//
//
// The kernels of this folder are C for NVPTX, compiled by clang while the
// library is built: no toolkit is needed. They are claimed to be right, not
// fast.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_KERNELS_COMMON_H
#define HEDDLE_RT_BACKENDS_CUDA_KERNELS_COMMON_H

#include "heddle_rt/abi.h"

#include <stdint.h>

#define KERNEL __attribute__((nvptx_kernel)) void
#define SHARED static __attribute__((address_space(3)))
#define SHARED_POINTER __attribute__((address_space(3))) *

enum { kWarp = 32, kAllLanes = -1 };

static inline int64_t threadInBlock(void) {
  return __nvvm_read_ptx_sreg_tid_x();
}
static inline int64_t blockThreads(void) {
  return __nvvm_read_ptx_sreg_ntid_x();
}
static inline int64_t block(void) { return __nvvm_read_ptx_sreg_ctaid_x(); }
static inline int64_t blocks(void) { return __nvvm_read_ptx_sreg_nctaid_x(); }
static inline int64_t thread(void) {
  return block() * blockThreads() + threadInBlock();
}

/// Returns the lanes of the warp whose condition is not 0, a bit for each. All
/// lanes call it.
static inline uint32_t ballot(int32_t condition) {
  return __nvvm_vote_ballot_sync((uint32_t)kAllLanes, condition != 0);
}

static inline float bitsToFloat(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } both = {bits};
  return both.value;
}
static inline uint32_t floatToBits(float value) {
  union {
    float value;
    uint32_t bits;
  } both = {value};
  return both.bits;
}

static inline float halfToFloat(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, bits = half & 0x7FFF;
  if (bits >= 0x7C00) // infinite or not a number
    return bitsToFloat(sign | 0x7F800000 | (bits & 0x3FF) << 13);
  // 2^112 corrects the exponent, also of subnormal numbers.
  return bitsToFloat(sign | floatToBits(bitsToFloat(bits << 13) * 0x1p112f));
}

/// Rounds to nearest, ties to even.
static inline uint16_t floatToHalf(float value) {
  uint32_t bits = floatToBits(value), sign = bits >> 16 & 0x8000;
  bits &= 0x7FFFFFFF;
  if (bits > 0x7F800000) // not a number
    return (uint16_t)(sign | 0x7E00);
  if (bits >= 0x477FF000) // at least halfway to 2^16
    return (uint16_t)(sign | 0x7C00);
  if (bits < 0x38800000) // subnormal: the addition rounds
    return (uint16_t)(sign |
                      (floatToBits(bitsToFloat(bits) + 0.5f) - 0x3F000000));
  bits += 0xFFF + (bits >> 13 & 1);
  return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

/// Reads an f32, bf16 or f16 element.
static inline float load(const void *from, int32_t type, int64_t index) {
  if (type == HEDDLE_RT_F16)
    return halfToFloat(((const uint16_t *)from)[index]);
  if (type == HEDDLE_RT_BF16)
    return bitsToFloat((uint32_t)((const uint16_t *)from)[index] << 16);
  return ((const float *)from)[index];
}

/// Writes an f32, bf16 or f16 element, rounded to nearest, ties to even.
static inline void store(void *to, int32_t type, int64_t index, float value) {
  if (type == HEDDLE_RT_F16) {
    ((uint16_t *)to)[index] = floatToHalf(value);
    return;
  }
  if (type != HEDDLE_RT_BF16) {
    ((float *)to)[index] = value;
    return;
  }
  uint32_t bits = floatToBits(value);
  uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  ((uint16_t *)to)[index] =
      value == value ? (uint16_t)rounded : (uint16_t)0x7FC0;
}

#endif // HEDDLE_RT_BACKENDS_CUDA_KERNELS_COMMON_H
