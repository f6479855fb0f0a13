//===- Philox.h - Random numbers in bodies ----------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_DECOMPOSEOPS_PHILOX_H
#define HEDDLE_LIB_LOWER_DECOMPOSEOPS_PHILOX_H

#include "Decomposer.h"
#include <array>

namespace heddle::lower {

/// Returns the four words of Philox4x32-10 (Salmon et al., SC 2011) with
/// counter (index low, index high, step low, stream). Words are i64 values
/// below 2^32, because the product of two such values is one vector
/// instruction.
std::array<mlir::Value, 4> philox(Body &b, mlir::Value index, mlir::Value step,
                                  uint32_t stream, uint64_t seed);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_DECOMPOSEOPS_PHILOX_H
