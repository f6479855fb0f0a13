//===- StagedSums.h - Sums of what other processes send ---------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_STAGEDSUMS_H
#define HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_STAGEDSUMS_H

#include "backends/cpu/communicators/ProcessGroup.h"

#include <cstddef>

namespace heddle::runtime {

class ThreadPool;

/// The elements of an input that each member sums.
struct Slices {
  std::vector<int64_t> begin, count; ///< by member
};

/// Sums inputs in the members' order, so the bits are those that
/// ThreadCommunicator computes. Pieces that have arrived from other processes
/// wait in memory of the size that the manifest states (heddle_rt/staging.h).
class StagedSums {
public:
  StagedSums(ThreadPool &pool, int64_t bytes)
      : pool(pool), bytes(bytes), memory(new std::byte[size_t(bytes)]) {}

  /// Returns an error if the memory is too small for an all_reduce or a
  /// reduce_scatter in a group of so many members.
  Status check(const Collective &call, int64_t members) const;

  /// Sums this member's slice of all inputs into `to`, and sends the slices of
  /// the others. `to` may be the place of the slice in the input.
  Status sumSlice(ProcessGroup &group, const Collective &call,
                  const Slices &slices, void *to, Messages &sends);
  /// Sums all inputs on every member. This takes one message less than slices
  /// do. Ends the collective.
  Status sumWhole(ProcessGroup &group, const Collective &call);

private:
  ThreadPool &pool;
  const int64_t bytes;
  const std::unique_ptr<std::byte[]> memory;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_STAGEDSUMS_H
