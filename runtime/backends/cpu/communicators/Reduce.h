//===- Reduce.h - Sums of several members' buffers --------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_REDUCE_H
#define HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_REDUCE_H

#include "communicators/Communicator.h"

#include <span>

namespace heddle::runtime {

/// The bytes that one core copies or sums at a time.
inline constexpr int64_t grainBytes = 128 << 10;

/// Reduces `count` elements of ins[0], ins[1], ..., in that order, each from
/// element `inOffset` on. Writes the result to every buffer of `outs` from
/// element `outOffset` on. A buffer may be both input and output if the two
/// offsets are equal. bf16 and f16 are summed in f32 and rounded once.
void reduceInto(Reduction reduction, DType type,
                std::span<const void *const> ins, int64_t inOffset,
                std::span<void *const> outs, int64_t outOffset, int64_t count);

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_REDUCE_H
