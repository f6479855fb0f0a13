//===- ProcessCommunicator.h - Ranks in several processes -------*- C++ -*-===//
//
// Each process has some of the ranks. Members of a group that share a process
// read each other's buffers, as in ThreadCommunicator.h. All others exchange
// messages with each other directly.
//
// A collective begins with a header from each member to each other one. Members
// compare the headers, so they notice if they do not call the same collective,
// before any data moves. Then:
//
//   all_gather, all_to_all, broadcast, permute: each block travels from its
//       owner's input to the reader's output
//   reduce_scatter: each member sends every other member the slice of its
//       input that the other one sums. It receives pieces of its own slice and
//       sums them in the members' order
//   all_reduce: as reduce_scatter, then as all_gather. A small one sends whole
//       inputs and sums on every member, which takes one message less.
//
// The sums have the same bits as those of ThreadCommunicator. Pieces that wait
// to be summed are in memory of the size that the manifest states
// (StagedSums.h).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_PROCESSCOMMUNICATOR_H
#define HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_PROCESSCOMMUNICATOR_H

#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "heddle_rt/job.h"

namespace heddle::runtime {

/// Makes one communicator for each rank of this process and each of its
/// streams, as `makeThreadCommunicators` does. Every process has
/// n = pools.size() ranks; those of process p of the job begin at p * n.
/// `staging` holds, by stream, the bytes in which each rank stages sums
/// (heddle_rt/staging.h). `options.ranks` is not used.
Expected<std::vector<std::vector<std::unique_ptr<Communicator>>>>
makeProcessCommunicators(const std::vector<MeshAxis> &mesh,
                         const std::vector<GroupInfo> &groups,
                         const std::vector<std::vector<ThreadPool *>> &pools,
                         const std::shared_ptr<Job> &job,
                         const std::vector<int64_t> &staging,
                         const ThreadCommunicatorOptions &options = {});

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_PROCESSCOMMUNICATOR_H
