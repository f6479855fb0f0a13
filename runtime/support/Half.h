//===- Half.h - Scalar conversions of f16 and bf16 --------------*- C++ -*-===//

#ifndef HEDDLE_RT_SUPPORT_HALF_H
#define HEDDLE_RT_SUPPORT_HALF_H

#include <cstdint>

namespace heddle::runtime {

// To f16 and bf16, these round to nearest, ties to even; a NaN stays one.

float f16ToF32(uint16_t bits);
uint16_t f32ToF16(float value);
uint16_t f32ToBf16(float value);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SUPPORT_HALF_H
