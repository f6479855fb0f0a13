//===- CpuRegion.h - Memory straight from the system ------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_CPUREGION_H
#define HEDDLE_RT_BACKENDS_CPU_CPUREGION_H

#include "device/Region.h"

namespace heddle::runtime {

/// Memory from the operating system, in huge pages if it is large enough. The
/// system places a page near the core that first touches it.
class CpuRegion final : public Region {
public:
  ~CpuRegion() override;

  Status allocate(size_t bytes);
  Status clear() override;
  void forbid(const uint8_t *begin, size_t bytes) override;

private:
  size_t bytes = 0, used = 0; ///< rounded up to whole pages; as asked for
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_CPUREGION_H
