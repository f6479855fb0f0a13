//===- Convert.h - Between f32 and the storage types ------------*- C++ -*-===//

#ifndef HEDDLE_RT_KERNELS_CONVERT_H
#define HEDDLE_RT_KERNELS_CONVERT_H

#include "heddle_rt/manifest.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::runtime {

/// Returns the address of the element `offset` of a buffer.
inline const void *at(const void *base, int32_t type, int64_t offset) {
  return static_cast<const char *>(base) +
         offset * int64_t(byteSize(DType(type)));
}
inline void *at(void *base, int32_t type, int64_t offset) {
  return static_cast<char *>(base) + offset * int64_t(byteSize(DType(type)));
}

/// Returns the first address in `buffer` that starts a cache line. The buffer
/// must have 64 spare bytes.
inline void *alignedIn(std::vector<std::byte> &buffer) {
  auto misplaced = reinterpret_cast<uintptr_t>(buffer.data()) % 64;
  return buffer.data() + (misplaced ? 64 - misplaced : 0);
}

/// Convert `count` elements from or to `type`, which is f32, bf16 or f16.
void convertToF32(DType type, const void *from, float *to, int64_t count);
void convertFromF32(DType type, const float *from, void *to, int64_t count);
/// Adds addends[i], of type `type`, to sums[i].
void addF32(DType type, const void *addends, float *sums, int64_t count);

} // namespace heddle::runtime

#endif // HEDDLE_RT_KERNELS_CONVERT_H
