//===- Half.h - Scalar conversions of f16 and bf16 --------------*- C++ -*-===//

#ifndef HEDDLE_RT_SUPPORT_HALF_H
#define HEDDLE_RT_SUPPORT_HALF_H

#include <cstdint>

namespace heddle::runtime {

// Conversions to f16 and bf16 round to nearest, ties to even. A NaN stays a
// NaN.

float f16ToF32(uint16_t bits);
uint16_t f32ToF16(float value);
uint16_t f32ToBf16(float value);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SUPPORT_HALF_H
