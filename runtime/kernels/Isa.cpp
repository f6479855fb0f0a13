//===- Isa.cpp - Chooses inner loops by cpuid; half precision -------------===//

#include "kernels/Isa.h"

#include <cmath>
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

float f16ToF32(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  float magnitude;
  if (exponent == 31)
    magnitude = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    magnitude = std::ldexp(float(mantissa), -24);
  else
    magnitude = std::ldexp(float(mantissa + 1024), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t f32ToF16(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7e00;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.f)
    return sign | 0x7c00;
  int exponent;
  std::frexp(magnitude, &exponent); // magnitude in [2^(exponent-1), 2^exponent)
  // Units of the last place. Normal numbers have 11 significant bits; the unit
  // of denormal numbers is 2^-24.
  int unit = exponent - 11 < -24 || magnitude == 0 ? -24 : exponent - 11;
  auto units = uint32_t(std::nearbyint(std::ldexp(magnitude, -unit)));
  // Rounding up needs no special case. A denormal number that becomes 1024
  // units is the least normal number. A normal number that becomes 2048 units
  // is the next power of two.
  return sign |
         uint16_t(unit == -24 ? units : (uint32_t(unit + 24) << 10) + units);
}

} // namespace heddle::runtime
