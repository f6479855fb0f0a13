//===- Region.h - A device's memory -----------------------------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_REGION_H
#define HEDDLE_RT_SESSION_REGION_H

#include "heddle_rt/status.h"

#include <cstddef>
#include <cstdint>

namespace heddle::runtime {

/// Zeroed memory straight from the system, in huge pages where it is large
/// enough for them. Pages are placed where they are first touched.
class Region {
public:
  Region() = default;
  ~Region();
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

  Status allocate(size_t bytes);
  /// Writes zeros to all of it, from the thread that will use it.
  void touch();

  uint8_t *data() const { return base; }
  size_t size() const { return bytes; }

private:
  uint8_t *base = nullptr;
  size_t bytes = 0, used = 0; ///< whole pages; bytes that were asked for
};

/// Every buffer starts on a cache line.
constexpr size_t bufferAlignment = 64;
inline size_t alignBuffer(size_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_REGION_H
