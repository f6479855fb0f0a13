//===- Isa.cpp - Chooses inner loops by cpuid -----------------------------===//

#include "backends/cpu/kernels/Isa.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace heddle::runtime {

const IsaKernels &baselineKernels();
#if defined(__x86_64__)
const IsaKernels &avx2Kernels();
const IsaKernels &avx512Kernels();
#endif

const IsaKernels *findIsaKernels(const char *name) {
  if (std::strcmp(name, "baseline") == 0)
    return &baselineKernels();
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
  if (std::strcmp(name, "avx2") == 0 && avx2)
    return &avx2Kernels();
  if (std::strcmp(name, "avx512") == 0 && avx512)
    return &avx512Kernels();
#endif
  return nullptr;
}

static const IsaKernels &choose() {
  if (const char *wish = std::getenv("HEDDLE_RT_ISA"))
    if (const IsaKernels *kernels = findIsaKernels(wish))
      return *kernels;
  for (const char *name : {"avx512", "avx2"})
    if (const IsaKernels *kernels = findIsaKernels(name))
      return *kernels;
  return baselineKernels();
}

const IsaKernels &isaKernels() {
  static const IsaKernels &chosen = choose();
  return chosen;
}

} // namespace heddle::runtime
