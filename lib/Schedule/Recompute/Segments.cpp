//===- Segments.cpp - The parts in which a pass is recomputed -------------===//

#include "Segments.h"
#include "../Repetition.h"
#include "heddle/Support/Bytes.h"

using namespace mlir;
using namespace heddle;

/// Returns, for the place before each op and for the end, the bytes of values
/// that ops before the place compute and ops after it read.
static SmallVector<int64_t> countCrossingBytes(const ForwardPass &forward) {
  // First the change at each place.
  SmallVector<int64_t> crossing(forward.getOps().size() + 2, 0);
  for (auto [i, op] : llvm::enumerate(forward.getOps()))
    for (Value result : op->getResults()) {
      auto last = static_cast<int32_t>(i);
      for (Operation *user : result.getUsers())
        last = std::max(last, forward.getIndex(forward.getOwner(user)));
      int64_t bytes = getBytes(result.getType());
      crossing[i + 1] += bytes;
      crossing[last + 1] -= bytes;
    }
  crossing.pop_back();
  for (size_t at = 1; at < crossing.size(); ++at)
    crossing[at] += crossing[at - 1];
  return crossing;
}

/// Adds the segments of a run, one for each period. They begin at the place of
/// the period at which the fewest bytes cross their borders.
static void addSegments(Run run, int32_t period, ArrayRef<int64_t> crossing,
                        SmallVectorImpl<Segment> &segments) {
  int32_t count = (run.end - run.begin) / period;
  int32_t begin = run.begin;
  auto bytesFrom = [&](int32_t first) {
    int64_t bytes = 0;
    for (int32_t i = 0; i <= count; ++i)
      bytes += crossing[first + i * period];
    return bytes;
  };
  for (int32_t first = run.begin; first + count * period <= run.end; ++first)
    if (bytesFrom(first) < bytesFrom(begin))
      begin = first;
  // A run may begin before the end of the one before it.
  for (int32_t i = 0; i < count; ++i)
    if (segments.empty() || segments.back().end <= begin + i * period)
      segments.push_back({begin + i * period, begin + (i + 1) * period});
}

/// Returns the segments of a network without equal layers. It is cut at places
/// where fewer bytes cross than at all others nearby.
static SmallVector<Segment> cutAtMinima(ArrayRef<int64_t> crossing) {
  auto count = static_cast<int32_t>(crossing.size()) - 1;
  int32_t window = 1;
  while (window * window < count)
    ++window;
  SmallVector<Segment> segments;
  int32_t begin = 0;
  for (int32_t at = 1; at < count; ++at) {
    bool isLeast = crossing[at] > 0;
    for (int32_t near = std::max(1, at - window);
         near < std::min(count, at + window + 1); ++near)
      isLeast &= near < at ? crossing[at] < crossing[near]
                           : crossing[at] <= crossing[near];
    if (!isLeast)
      continue;
    segments.push_back({begin, at});
    begin = at;
  }
  return segments;
}

SmallVector<Segment> heddle::findSegments(const ForwardPass &forward,
                                          bool isStage) {
  SmallVector<uint64_t> fingerprints;
  for (Operation *op : forward.getOps())
    fingerprints.push_back(getFingerprint(op));
  SmallVector<int64_t> crossing = countCrossingBytes(forward);
  int32_t period = 0;
  SmallVector<Run> runs = findLeastRuns(fingerprints, period);
  if (runs.empty() && isStage && !fingerprints.empty())
    return {Segment{0, static_cast<int32_t>(fingerprints.size())}};
  if (runs.empty())
    return cutAtMinima(crossing);
  SmallVector<Segment> segments;
  for (Run run : runs)
    addSegments(run, period, crossing, segments);
  return segments;
}
