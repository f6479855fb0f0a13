//===- RingSteps.h - Steps of ring algorithms -------------------*- C++ -*-===//
//
// Shared by the prices of collectives (CollectiveCost.h) and the simulated
// traffic on links (lib/Simulate/Links), so that both follow one algorithm.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_RINGSTEPS_H
#define HEDDLE_COST_RINGSTEPS_H

#include "llvm/Support/MathExtras.h"
#include <cstdint>

namespace heddle {

/// In each of `count` steps, every member sends a block to the next one.
struct RingSteps {
  int64_t count = 0;
  int64_t blockBytes = 0;
};

/// Returns the steps of an all-gather or a reduce-scatter. Each member has, or
/// gets, a part of `partBytes`.
inline RingSteps getPartRing(int64_t members, int64_t partBytes) {
  return {members - 1, partBytes};
}

/// Returns the steps of an all-reduce of `bytes`: a reduce-scatter, then an
/// all-gather.
inline RingSteps getAllReduceRing(int64_t members, int64_t bytes) {
  return {2 * (members - 1), int64_t(llvm::divideCeil(bytes, members))};
}

} // namespace heddle

#endif // HEDDLE_COST_RINGSTEPS_H
