//===- Region.h - A piece of a device's memory ------------------*- C++ -*-===//

#ifndef HEDDLE_RT_DEVICE_REGION_H
#define HEDDLE_RT_DEVICE_REGION_H

#include "heddle_rt/status.h"

#include <cstddef>
#include <cstdint>

namespace heddle::runtime {

/// A piece of a device's memory, which it frees. The host reads and writes it
/// by the device's copies alone: the address may mean nothing to the host.
class Region {
public:
  Region() = default;
  virtual ~Region();
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

  /// Writes zeros to all of it. The device's host thread calls this once,
  /// before any other use, so that the memory lies near that thread.
  virtual Status clear() = 0;

  /// Lets a sanitizer report every access to these bytes from now on. Does
  /// nothing where no sanitizer watches this memory.
  virtual void forbid(const uint8_t *begin, size_t bytes);

  /// 64-byte aligned; null for a region of no bytes.
  uint8_t *data() const { return base; }

protected:
  uint8_t *base = nullptr;
};

/// Alignment of every buffer: a cache line.
constexpr size_t bufferAlignment = 64;
inline size_t alignBuffer(size_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_DEVICE_REGION_H
