//===- RecomputeLimits.cpp - Limits of optimal recomputation --------------===//

#include "heddle/Pipelines/RecomputeLimits.h"
#include "heddle/Plan/Plan.h"

using namespace heddle;

/// The most limits that are tried after the first one.
static constexpr int kTries = 4;
/// A program that takes this part of the memory fills it.
static constexpr double kFull = 0.95;

bool RecomputeLimits::next(int64_t used) {
  double fill = double(used) / room;
  numSame = usedBefore == used ? numSame + 1 : 0;
  usedBefore = used;
  (fill <= 1 ? fits : exceeds) = limit;
  // If smaller limits change nothing, everything is computed again.
  if (numTries++ == kTries || (fill <= 1 && fill >= kFull) ||
      (fill > 1 && numSame == 2))
    return false;
  // The used bytes grow with the limit, about in proportion.
  limit *= (1 + kFull) / 2 / fill;
  if (limit <= fits || limit >= exceeds || numSame > 0)
    limit = (fits + exceeds) / 2;
  return limit >= 1 && limit <= double(kMaxRecomputeBytes);
}
