//===- Collective.h - A collective or transfer as data ----------*- C++ -*-===//

#ifndef HEDDLE_RT_COMMUNICATORS_COLLECTIVE_H
#define HEDDLE_RT_COMMUNICATORS_COLLECTIVE_H

#include "communicators/Communicator.h"

namespace heddle::runtime {

/// The arguments of a call of a Communicator. The function of its name in
/// heddle_rt/abi.h says which fields it uses and what they mean.
struct Collective {
  enum class Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Permute,
    Send,
    Recv
  };

  Kind kind;
  int32_t group = 0;
  DType type = HEDDLE_RT_F32;
  const void *in = nullptr;
  void *out = nullptr;
  int64_t count = 0;
  Reduction reduction = HEDDLE_RT_SUM;
  int32_t peer = 0;                 ///< Send, Recv; the root of a Broadcast
  const int32_t *sources = nullptr; ///< Permute
  /// The time at which everything that the call waits for was over, in
  /// nanoseconds of the steady clock. A stream's thread may start the call
  /// later, because a computation has its core. Emulated links need no core, so
  /// they begin at this time. Earlier communication on the stream does not
  /// count, because its end may have been noticed late, too. 0: the time at
  /// which the call starts.
  int64_t ready = 0;

  /// Returns the argument that the members must agree on besides kind, type and
  /// count: the root of a broadcast, the reduction of a sum.
  int64_t detail() const {
    return kind == Kind::Broadcast ? peer
           : kind == Kind::AllReduce || kind == Kind::ReduceScatter
               ? int64_t(reduction)
               : 0;
  }

  /// Returns the bytes of this rank's input in a group of `members` ranks.
  int64_t bytesIn(int64_t members) const;
  /// Returns the bytes that this rank writes in a group of `members` ranks.
  int64_t bytesOut(int64_t members) const;
};

/// The name in abi.h, without its prefix: "all_reduce".
const char *name(Collective::Kind kind);

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_COLLECTIVE_H
