//===- ThreadCommunicator.h - Ranks are threads of one process --*- C++ -*-===//
//
// All ranks share memory, so a collective is: everyone says where its buffers
// are, everyone meets, each reads from (or writes to) its peers' buffers what
// is its part, everyone meets again. Nothing is copied twice. An all_reduce is
// cut into one slice a member: its owner reads that slice of every member's
// input, sums in the order of the members and writes the result to every
// member's output, so each byte crosses once in each direction and all get the
// same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMMUNICATORS_THREADCOMMUNICATOR_H
#define HEDDLE_RT_COMMUNICATORS_THREADCOMMUNICATOR_H

#include "communicators/Communicator.h"

#include <chrono>
#include <memory>
#include <vector>

namespace heddle::runtime {

class ThreadPool;

struct ThreadCommunicatorOptions {
  /// How long a rank waits for a peer before it declares it hung.
  std::chrono::milliseconds timeout{120'000};
  /// Watch memory for some microseconds before sleeping; only when every thread
  /// has a core of its own.
  bool spin = false;
};

/// One communicator for each rank of the mesh. `pools[rank]` are the cores that
/// the rank copies and sums with; they must outlive the communicators.
std::vector<std::unique_ptr<Communicator>>
makeThreadCommunicators(const std::vector<MeshAxis> &mesh,
                        const std::vector<std::vector<int32_t>> &groups,
                        const std::vector<ThreadPool *> &pools,
                        const ThreadCommunicatorOptions &options = {});

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_THREADCOMMUNICATOR_H
