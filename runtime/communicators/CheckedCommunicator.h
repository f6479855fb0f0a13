//===- CheckedCommunicator.h - Checks of collectives' arguments -*- C++ -*-===//

#ifndef HEDDLE_RT_COMMUNICATORS_CHECKEDCOMMUNICATOR_H
#define HEDDLE_RT_COMMUNICATORS_CHECKEDCOMMUNICATOR_H

#include "communicators/Collective.h"

namespace heddle::runtime {

/// Knows the groups of a rank. Checks the arguments of each call, as far as one
/// rank can, before the implementation runs it.
class CheckedCommunicator : public Communicator {
public:
  /// `groups` are the rank's views of the manifest's groups.
  explicit CheckedCommunicator(std::vector<GroupView> groups)
      : views(std::move(groups)) {}

  int32_t groupSize(int32_t group) const final;
  Status allReduce(int32_t group, Reduction reduction, DType type,
                   const void *in, void *out, int64_t count) final;
  Status allGather(int32_t group, DType type, const void *in, void *out,
                   int64_t count) final;
  Status reduceScatter(int32_t group, Reduction reduction, DType type,
                       const void *in, void *out, int64_t count) final;
  Status allToAll(int32_t group, DType type, const void *in, void *out,
                  int64_t count) final;
  Status broadcast(int32_t group, int32_t root, DType type, const void *in,
                   void *out, int64_t count) final;
  Status permute(int32_t group, const int32_t *sources, DType type,
                 const void *in, void *out, int64_t count) final;
  Status send(int32_t group, int32_t peer, DType type, const void *from,
              int64_t count) final;
  Status recv(int32_t group, int32_t peer, DType type, void *to,
              int64_t count) final;

protected:
  /// Runs a call whose group has this rank as a member.
  virtual Status run(const Collective &call) = 0;

  const std::vector<GroupView> &groups() const { return views; }
  const GroupView &viewOf(const Collective &call) const {
    return views[size_t(call.group)];
  }

private:
  Status check(const Collective &call) const;
  Status checkAndRun(const Collective &call);

  const std::vector<GroupView> views;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_CHECKEDCOMMUNICATOR_H
