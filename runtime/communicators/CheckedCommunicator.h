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
  Status perform(const Collective &call) final;

protected:
  /// Runs a call whose group has this rank as a member.
  virtual Status run(const Collective &call) = 0;

  const std::vector<GroupView> &groups() const { return views; }
  const GroupView &viewOf(const Collective &call) const {
    return views[size_t(call.group)];
  }

private:
  Status check(const Collective &call) const;

  const std::vector<GroupView> views;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_CHECKEDCOMMUNICATOR_H
