//===- CpuRegion.cpp - Memory straight from the system --------------------===//

#include "backends/cpu/CpuRegion.h"
#include "support/Message.h"
#include "support/Sanitizer.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace heddle::runtime {

CpuRegion::~CpuRegion() {
  if (!base)
    return;
  allow(base, bytes);
  munmap(base, bytes);
}

Status CpuRegion::allocate(size_t wanted) {
  constexpr size_t hugePage = size_t(2) << 20;
  bool large = wanted >= 2 * hugePage;
  size_t unit = large ? hugePage : 4096;
  bytes = (wanted + unit - 1) / unit * unit;
  used = wanted;
  if (bytes == 0)
    return Status::success();
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    size_t failed = std::exchange(bytes, 0);
    return errorOf("cannot allocate ", failed,
                   " bytes for a device: ", std::strerror(errno));
  }
  base = static_cast<uint8_t *>(memory);
  if (large)
    madvise(base, bytes, MADV_HUGEPAGE); // a hint: failure changes nothing
  return Status::success();
}

Status CpuRegion::clear() {
  if (!base)
    return Status::success();
  allow(base, bytes);
  std::memset(base, 0, bytes);
  runtime::forbid(base + used, bytes - used);
  return Status::success();
}

void CpuRegion::forbid(const uint8_t *begin, size_t count) {
  runtime::forbid(begin, count);
}

} // namespace heddle::runtime
