//===- Region.h - A device's memory -----------------------------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_REGION_H
#define HEDDLE_RT_SESSION_REGION_H

#include "heddle_rt/status.h"

#include <cstddef>
#include <cstdint>

namespace heddle::runtime {

/// Zeroed memory from the operating system, in huge pages if it is large
/// enough. The system places a page near the core that first touches it.
class Region {
public:
  Region() = default;
  ~Region();
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

  Status allocate(size_t bytes);
  /// Writes zeros to all the memory. Must be called by the thread that will use
  /// it.
  void touch();

  uint8_t *data() const { return base; }
  size_t size() const { return bytes; }

private:
  uint8_t *base = nullptr;
  size_t bytes = 0, used = 0; ///< rounded up to whole pages; as asked for
};

/// Alignment of every buffer: a cache line.
constexpr size_t bufferAlignment = 64;
inline size_t alignBuffer(size_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_REGION_H
