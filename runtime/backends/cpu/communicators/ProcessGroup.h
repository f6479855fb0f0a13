//===- ProcessGroup.h - A group whose members share messages ----*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_PROCESSGROUP_H
#define HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_PROCESSGROUP_H

#include "backends/cpu/communicators/Rendezvous.h"
#include "communicators/Collective.h"
#include "communicators/Transport.h"
#include "heddle_rt/job.h"

#include <array>
#include <map>
#include <memory>
#include <vector>

namespace heddle::runtime {

using Messages = std::vector<std::unique_ptr<Transport::Message>>;

/// What the communicators of all ranks of this process share.
struct ProcessState {
  explicit ProcessState(std::shared_ptr<Job> joined);
  ~ProcessState() { job->forget(callback); }

  /// Passes on failures of other processes. Called when `places` is complete.
  void watch();
  /// Wakes the members that wait in this process.
  void interrupt();
  /// Returns why a message failed.
  Status failureOfConnection();

  std::shared_ptr<Job> job;
  Failure failure;
  /// The meeting points of members in this process, by the group's index, the
  /// stream and the lowest rank of all members.
  std::map<std::array<int32_t, 3>, std::unique_ptr<Rendezvous>> places;
  uint64_t callback = 0;
};

/// A group with this rank as a member, on one stream. Members of this process
/// read each other's buffers; all others exchange messages.
class ProcessGroup {
public:
  /// `index` is the group's in the manifest. A process has `ranksPerProcess`
  /// consecutive ranks.
  ProcessGroup(ProcessState &state, const GroupView &view, int32_t index,
               int32_t stream, int32_t ranksPerProcess,
               const ThreadCommunicatorOptions &options);

  int32_t size() const { return int32_t(ranks.size()); }
  int32_t member() const { return self; }
  bool isLocal(int32_t member) const { return local[size_t(member)] >= 0; }
  /// The members in other processes.
  const std::vector<int32_t> &remote() const { return others; }

  /// Meets all other members and checks that they call the same collective.
  Status begin(const Collective &call);
  /// Ends a collective: afterwards no member touches another one's buffers.
  Status end(Messages &messages);
  /// Waits until no member of this process reads announced buffers any more.
  Status leave() { return place->leave(local[size_t(self)]); }

  /// Returns the input or output that a member of this process has announced.
  const char *inOf(int32_t member) const {
    return static_cast<const char *>(place->offer(local[size_t(member)]).in);
  }
  char *outOf(int32_t member) const {
    return static_cast<char *>(place->offer(local[size_t(member)]).out);
  }

  /// Sends bytes to a member of another process, or receives them. Empty
  /// messages are not sent.
  void post(Messages &messages, int32_t to, const void *data, int64_t bytes);
  void expect(Messages &messages, int32_t from, void *data, int64_t bytes);
  Status waitForAll(Messages &messages);

  /// Runs a transfer. A header precedes the data between two processes.
  Status send(const Collective &call);
  Status recv(const Collective &call);

private:
  uint64_t slot(SlotPurpose purpose, int32_t from, int32_t to) const {
    return slotOf(purpose, index, stream, ranks[size_t(from)],
                  ranks[size_t(to)]);
  }

  ProcessState &state;
  Transport &transport;
  const int32_t index, stream, self;
  const ThreadCommunicatorOptions options;
  const std::vector<int32_t> ranks;
  std::vector<int32_t> processes; ///< by member
  std::vector<int32_t> local;     ///< by member: its index in `place`, or -1
  std::vector<int32_t> others;
  Rendezvous *place = nullptr;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_PROCESSGROUP_H
