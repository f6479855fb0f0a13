//===- ThreadCommunicator.h - Ranks are threads of one process --*- C++ -*-===//
//
// All ranks share memory. In a collective, every member announces its buffers,
// and all wait for each other. Then each member reads its part from its peers'
// buffers (or writes it to them), and all wait again.
//
// An all_reduce gives each member one slice of the elements. The owner of a
// slice reads it from every member's input, sums in the order of the members,
// and writes the result to every member's output. So all members get the same
// bits.
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
  /// Time that a rank waits for a peer before it reports the peer as hung.
  std::chrono::milliseconds timeout{120'000};
  /// True: waiting threads watch memory for some microseconds before they
  /// sleep. Set it only if every thread has a core of its own.
  bool spin = false;
  /// The ranks of this process, by pool. Empty: rank i has pool i.
  std::vector<int32_t> ranks = {};
};

/// Makes one communicator for each rank of this process and each of its
/// streams: [rank][stream]. It copies and sums on the threads of
/// `pools[rank][stream]`, which must outlive it. A communicator meets only
/// those of the same stream number. So ranks match their collectives by group,
/// stream and order on that stream.
std::vector<std::vector<std::unique_ptr<Communicator>>>
makeThreadCommunicators(const std::vector<MeshAxis> &mesh,
                        const std::vector<GroupInfo> &groups,
                        const std::vector<std::vector<ThreadPool *>> &pools,
                        const ThreadCommunicatorOptions &options = {});

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_THREADCOMMUNICATOR_H
