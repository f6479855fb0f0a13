//===- Convert.cpp - Between f32 and the storage types --------------------===//

#include "backends/cpu/kernels/Convert.h"
#include "backends/cpu/kernels/Isa.h"
#include "support/Half.h"

#include <algorithm>
#include <cstring>

namespace heddle::runtime {

void convertToF32(DType type, const void *from, float *to, int64_t count) {
  auto *bits = static_cast<const uint16_t *>(from);
  switch (type) {
  case HEDDLE_RT_BF16:
    return isaKernels().bf16ToF32(bits, to, count);
  case HEDDLE_RT_F16:
    for (int64_t i = 0; i < count; ++i)
      to[i] = f16ToF32(bits[i]);
    return;
  default:
    std::memcpy(to, from, size_t(count) * sizeof(float));
  }
}

void convertFromF32(DType type, const float *from, void *to, int64_t count) {
  auto *bits = static_cast<uint16_t *>(to);
  switch (type) {
  case HEDDLE_RT_BF16:
    return isaKernels().f32ToBf16(from, bits, count);
  case HEDDLE_RT_F16:
    for (int64_t i = 0; i < count; ++i)
      bits[i] = f32ToF16(from[i]);
    return;
  default:
    std::memcpy(to, from, size_t(count) * sizeof(float));
  }
}

void addF32(DType type, const void *addends, float *sums, int64_t count) {
  if (type == HEDDLE_RT_F32)
    return isaKernels().sumF32(sums, static_cast<const float *>(addends),
                               count);
  constexpr int64_t block = 1024;
  float converted[block];
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t size = std::min(block, count - begin);
    convertToF32(type, at(addends, type, begin), converted, size);
    isaKernels().sumF32(sums + begin, converted, size);
  }
}

} // namespace heddle::runtime
