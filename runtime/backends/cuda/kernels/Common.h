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

/// Reads an f32 or bf16 element.
static inline float load(const void *from, int32_t type, int64_t index) {
  if (type == HEDDLE_RT_BF16)
    return bitsToFloat((uint32_t)((const uint16_t *)from)[index] << 16);
  return ((const float *)from)[index];
}

/// Writes an f32 or bf16 element, rounded to nearest, ties to even.
static inline void store(void *to, int32_t type, int64_t index, float value) {
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
