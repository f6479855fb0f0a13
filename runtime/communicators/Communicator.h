//===- Communicator.h - Collectives among the devices -----------*- C++ -*-===//
//
// The interface of collectives: one object for each rank of a session. It is
// implemented by threads of one process (ThreadCommunicator.h). Implementations
// with MPI and NCCL join behind this interface and pass the same conformance
// suite (test/unit/Runtime/CommunicatorTest.cpp).
//
// The semantics of every call are those of the `heddle_rt_*` function of the
// same name in heddle_rt/abi.h. A call returns when this rank's part is done:
// its output is complete and its input may be overwritten. An implementation
// for asynchronous streams runs these calls on the stream's own thread or
// queue.
//
// After an error the communicator is broken: every later call on any rank fails
// with the first error, so that all ranks report the same cause.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMMUNICATORS_COMMUNICATOR_H
#define HEDDLE_RT_COMMUNICATORS_COMMUNICATOR_H

#include "heddle_rt/manifest.h"
#include "heddle_rt/status.h"

#include <cstdint>
#include <vector>

namespace heddle::runtime {

using Reduction = heddle_rt_reduction;

/// One rank's group: its members, in the order of reductions.
struct GroupView {
  std::vector<int32_t> ranks;
  int32_t member; ///< this rank's index among them
};

/// Ranks are numbered row-major over the mesh. A group over some of its axes
/// joins the ranks that agree on all other axes; members are ordered by their
/// coordinates along `axes`, the first slowest.
GroupView groupOf(const std::vector<MeshAxis> &mesh,
                  const std::vector<int32_t> &axes, int32_t rank);

/// Coordinates of a rank along each mesh axis.
std::vector<int64_t> coordinatesOf(const std::vector<MeshAxis> &mesh,
                                   int32_t rank);

class Communicator {
public:
  virtual ~Communicator();

  virtual Status allReduce(int32_t group, Reduction reduction, DType type,
                           const void *in, void *out, int64_t count) = 0;
  virtual Status allGather(int32_t group, DType type, const void *in, void *out,
                           int64_t outer, int64_t local, int64_t total,
                           int64_t inner) = 0;
  virtual Status reduceScatter(int32_t group, Reduction reduction, DType type,
                               const void *in, void *out, int64_t outer,
                               int64_t local, int64_t total, int64_t inner) = 0;
  /// The sizes of heddle_rt_all_to_all.
  struct AllToAll {
    bool splitFirst;
    int64_t outer, splitTotal, splitLocal, middle, concatLocal, concatTotal,
        inner;
  };
  virtual Status allToAll(int32_t group, DType type, const void *in, void *out,
                          const AllToAll &sizes) = 0;
  virtual Status broadcast(int32_t group, int32_t root, DType type,
                           const void *in, void *out, int64_t count) = 0;
  virtual Status permute(int32_t group, const int32_t *sources, DType type,
                         const void *in, void *out, int64_t count) = 0;
  virtual Status send(int32_t group, int32_t peer, DType type, const void *from,
                      int64_t count) = 0;
  virtual Status recv(int32_t group, int32_t peer, DType type, void *to,
                      int64_t count) = 0;

  /// Tells every rank that this one has failed. Waiting ranks stop with `why`.
  /// May be called from any thread.
  virtual void abort(const Status &why) = 0;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_COMMUNICATOR_H
