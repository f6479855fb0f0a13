//===- Backends.cpp - The backends of this build --------------------------===//

#include "backends/Backends.h"
#include "support/Message.h"

namespace heddle::runtime {

Backend::~Backend() = default;

Expected<KernelTimes>
Backend::timeKernels(const CodeInfo &code,
                     const std::filesystem::path &) const {
  return errorOf("expected a program for GPUs, got one for devices of kind ",
                 code.kind, ": compile the model with --target-gpu");
}

Expected<KernelTimes> timeKernels(const std::filesystem::path &artifact) {
  Expected<Manifest> manifest = readManifest(artifact / "manifest.json");
  HEDDLE_RT_RETURN_IF_ERROR(manifest.status());
  for (const CodeInfo &code : manifest->code)
    if (const Backend *backend = findBackend(code.kind))
      return backend->timeKernels(code, artifact);
  return error("expected a program for GPUs, got one that this build of the "
               "runtime does not serve");
}

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
