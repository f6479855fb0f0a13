//===- CpuRegion.h - Memory straight from the system ------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_CPUREGION_H
#define HEDDLE_RT_BACKENDS_CPU_CPUREGION_H

#include "device/Region.h"

namespace heddle::runtime {

/// Memory straight from the system, in huge pages where it is large enough for
/// them. Pages are placed where they are first touched.
class CpuRegion final : public Region {
public:
  ~CpuRegion() override;

  Status allocate(size_t bytes);
  Status clear() override;
  void forbid(const uint8_t *begin, size_t bytes) override;

private:
  size_t bytes = 0, used = 0; ///< whole pages; bytes that were asked for
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_CPUREGION_H
