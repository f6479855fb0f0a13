//===- Backends.cpp - The backends of this build --------------------------===//

#include "backends/Backends.h"

namespace heddle::runtime {

Backend::~Backend() = default;

const Backend *findBackend(std::string_view kind) {
  return kind == cpuKind ? &cpuBackend() : nullptr;
}

} // namespace heddle::runtime
