//===- Region.cpp - A device's memory -------------------------------------===//

#include "session/Region.h"
#include "support/Message.h"
#include "support/Sanitizer.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace heddle::runtime {

Region::~Region() {
  if (!base)
    return;
  allow(base, bytes);
  munmap(base, bytes);
}

Status Region::allocate(size_t wanted) {
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

void Region::touch() {
  if (!base)
    return;
  allow(base, bytes);
  std::memset(base, 0, bytes);
  forbid(base + used, bytes - used);
}

} // namespace heddle::runtime
