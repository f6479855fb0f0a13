//===- RecomputeLimits.h - Limits of optimal recomputation ------*- C++ -*-===//

#ifndef HEDDLE_PIPELINES_RECOMPUTELIMITS_H
#define HEDDLE_PIPELINES_RECOMPUTELIMITS_H

#include <cstdint>
#include <limits>
#include <optional>

namespace heddle {

/// Searches for the limit (Plan::recomputeBytes) with which a program that
/// recomputes `optimal` fills the memory. A limit counts tensors before ops are
/// fused, in the order of the text, so the bytes that the program takes are
/// known only when it is compiled.
class RecomputeLimits {
public:
  /// `room`: the bytes of a device that arena and slots may take; at least 1.
  /// `first`: the first limit; 0: as much.
  explicit RecomputeLimits(int64_t room, int64_t first = 0)
      : room(double(room)), limit(double(first > 0 ? first : room)) {}

  int64_t getLimit() const { return int64_t(limit); }

  /// Takes the bytes of arena and slots of the program with the current limit.
  /// Returns whether another limit, which becomes the current one, may serve
  /// better: false if the program fills the memory, if limits change nothing
  /// any more, or after some tries.
  bool next(int64_t used);

private:
  double room, limit;
  double fits = 0, exceeds = std::numeric_limits<double>::infinity();
  std::optional<int64_t> usedBefore;
  int numTries = 0, numSame = 0;
};

} // namespace heddle

#endif // HEDDLE_PIPELINES_RECOMPUTELIMITS_H
