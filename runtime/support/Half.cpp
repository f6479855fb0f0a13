//===- Half.cpp - Scalar conversions of f16 and bf16 ----------------------===//

#include "support/Half.h"

#include <bit>
#include <cmath>

namespace heddle::runtime {

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

uint16_t f32ToBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t((bits >> 16) | 0x40);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

} // namespace heddle::runtime
