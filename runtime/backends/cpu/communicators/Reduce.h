//===- Reduce.h - Sums of several members' buffers --------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_REDUCE_H
#define HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_REDUCE_H

#include "communicators/Communicator.h"

#include <span>

namespace heddle::runtime {

/// Whether elements of `type` can be reduced.
bool isReducible(DType type);

/// Reduces `count` elements of ins[0], ins[1], ..., in that order, each
/// starting at element `inOffset`, and writes the result to every one of `outs`
/// at element `outOffset`. Outputs may be the inputs themselves at equal
/// offsets. bf16 and f16 are summed in f32 and rounded once.
void reduceInto(Reduction reduction, DType type,
                std::span<const void *const> ins, int64_t inOffset,
                std::span<void *const> outs, int64_t outOffset, int64_t count);

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_REDUCE_H
