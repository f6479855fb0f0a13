//===- Communicator.h - Collectives among the devices -----------*- C++ -*-===//
//
// The interface of collectives: one object for each rank of a session.
// ThreadCommunicator.h implements it for ranks that are threads of one process,
// ProcessCommunicator.h for ranks in several processes. An implementation with
// NCCL would implement this interface too. All must pass the same conformance
// suite (test/unit/Runtime/Communicators/CommunicatorTest.cpp).
//
// Each function means what the `heddle_rt_*` function of the same name in
// heddle_rt/abi.h means. A call returns when this rank's part is done: its
// output is complete and its input may be overwritten. An implementation for
// asynchronous streams runs these calls on the stream's own thread or queue.
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

/// The group of one rank. `ranks` holds its members in the order in which
/// reductions add them.
struct GroupView {
  std::vector<int32_t> ranks;
  int32_t member; ///< index of the rank itself in `ranks`; -1: no member
};

/// Returns the group of `rank` over the mesh axes `axes`: the ranks that have
/// the same coordinates along all other axes. Members are ordered by their
/// coordinates along `axes`, the first of `axes` slowest. Ranks are numbered
/// row-major over the mesh. On a 2 x 4 mesh, rank 5 and axes {0} give the ranks
/// {1, 5} and member 1.
GroupView groupOf(const std::vector<MeshAxis> &mesh,
                  const std::vector<int32_t> &axes, int32_t rank);

/// Returns the group of `rank`, without the ranks that `group.among` leaves
/// out.
GroupView groupOf(const std::vector<MeshAxis> &mesh, const GroupInfo &group,
                  int32_t rank);

/// Returns the coordinates of a rank along each mesh axis.
std::vector<int64_t> coordinatesOf(const std::vector<MeshAxis> &mesh,
                                   int32_t rank);

struct Collective;

class Communicator {
public:
  virtual ~Communicator();

  /// Returns the number of the group's members; 0 if there is no such group or
  /// this rank is no member.
  virtual int32_t groupSize(int32_t group) const = 0;

  /// Performs a collective or transfer. An implementation provides this
  /// function, and the functions below call it.
  virtual Status perform(const Collective &call) = 0;

  Status allReduce(int32_t group, Reduction reduction, DType type,
                   const void *in, void *out, int64_t count);
  Status allGather(int32_t group, DType type, const void *in, void *out,
                   int64_t count);
  Status reduceScatter(int32_t group, Reduction reduction, DType type,
                       const void *in, void *out, int64_t count);
  Status allToAll(int32_t group, DType type, const void *in, void *out,
                  int64_t count);
  Status broadcast(int32_t group, int32_t root, DType type, const void *in,
                   void *out, int64_t count);
  Status permute(int32_t group, const int32_t *sources, DType type,
                 const void *in, void *out, int64_t count);
  Status send(int32_t group, int32_t peer, DType type, const void *from,
              int64_t count);
  Status recv(int32_t group, int32_t peer, DType type, void *to, int64_t count);

  /// Tells every rank that this rank has failed. Waiting ranks stop and return
  /// `why`. May be called from any thread.
  virtual void abort(const Status &why) = 0;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_COMMUNICATOR_H
