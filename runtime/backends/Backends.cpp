//===- Backends.cpp - The backends of this build --------------------------===//

#include "backends/Backends.h"

namespace heddle::runtime {

Backend::~Backend() = default;

const Backend *findBackend(std::string_view kind) {
  if (kind == cpuKind)
    return &cpuBackend();
#if defined(HEDDLE_RT_HAS_CUDA)
  if (kind == cudaKind)
    return &cudaBackend();
#endif
  return nullptr;
}

std::string findGpu() {
#if defined(HEDDLE_RT_HAS_CUDA)
  return describeGpu();
#else
  return "";
#endif
}

} // namespace heddle::runtime
