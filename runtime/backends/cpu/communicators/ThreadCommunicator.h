//===- ThreadCommunicator.h - Ranks are threads of one process --*- C++ -*-===//
//
// All ranks share memory. In a collective, every member announces its buffers,
// all meet, each reads its part from its peers' buffers (or writes it to them),
// and all meet again. Nothing is copied twice.
//
// An all_reduce is cut into one slice a member. The owner of a slice reads it
// from every member's input, sums in the order of the members, and writes the
// result to every member's output. So each byte crosses once in each direction,
// and all members get the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_THREADCOMMUNICATOR_H
#define HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_THREADCOMMUNICATOR_H

#include "communicators/Communicator.h"

#include <chrono>
#include <memory>
#include <vector>

namespace heddle::runtime {

class ThreadPool;

struct ThreadCommunicatorOptions {
  /// How long a rank waits for a peer before it declares it hung.
  std::chrono::milliseconds timeout{120'000};
  /// Whether to spin on memory for some microseconds before sleeping. For use
  /// only if every thread has a core of its own.
  bool spin = false;
};

/// Makes one communicator for each rank of the mesh. `pools[rank]` copies and
/// sums for the rank; it must outlive the communicators.
std::vector<std::unique_ptr<Communicator>>
makeThreadCommunicators(const std::vector<MeshAxis> &mesh,
                        const std::vector<std::vector<int32_t>> &groups,
                        const std::vector<ThreadPool *> &pools,
                        const ThreadCommunicatorOptions &options = {});

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_THREADCOMMUNICATOR_H
