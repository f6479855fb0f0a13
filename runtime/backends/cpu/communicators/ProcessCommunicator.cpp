//===- ProcessCommunicator.cpp - Ranks in several processes ---------------===//

#include "backends/cpu/communicators/ProcessCommunicator.h"
#include "backends/cpu/communicators/Reduce.h"
#include "backends/cpu/communicators/StagedSums.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "communicators/CheckedCommunicator.h"
#include "heddle_rt/staging.h"
#include "support/Message.h"

#include <cstring>
#include <optional>

namespace heddle::runtime {

namespace {

using Kind = Collective::Kind;

int64_t bytesOf(const Collective &call) {
  return call.count * int64_t(byteSize(call.type));
}

class ProcessCommunicator final : public CheckedCommunicator {
public:
  /// `members` are the groups with this rank as a member; the others are empty.
  ProcessCommunicator(std::shared_ptr<ProcessState> state, ThreadPool &pool,
                      std::vector<GroupView> groups,
                      std::vector<std::optional<ProcessGroup>> members,
                      int64_t stagingBytes)
      : CheckedCommunicator(std::move(groups)), state(std::move(state)),
        pool(pool), members(std::move(members)), sums(pool, stagingBytes) {}

  void abort(const Status &why) override {
    state->failure.set(why);
    state->interrupt();
  }

private:
  Status run(const Collective &call) override;
  Status runAllReduce(ProcessGroup &group, const Collective &call);
  Status runReduceScatter(ProcessGroup &group, const Collective &call);
  Status runAllGather(ProcessGroup &group, const Collective &call);
  Status runAllToAll(ProcessGroup &group, const Collective &call);
  Status runBroadcast(ProcessGroup &group, const Collective &call);
  Status runPermute(ProcessGroup &group, const Collective &call);

  void copy(const void *from, void *to, int64_t bytes) {
    if (from == to)
      return;
    pool.forRanges(bytes, grainBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char *>(to) + begin,
                  static_cast<const char *>(from) + begin, size_t(end - begin));
    });
  }

  std::shared_ptr<ProcessState> state;
  ThreadPool &pool;
  std::vector<std::optional<ProcessGroup>> members;
  StagedSums sums;
};

Status ProcessCommunicator::run(const Collective &call) {
  ProcessGroup &group = *members[size_t(call.group)];
  if (call.kind == Kind::Send)
    return group.send(call);
  if (call.kind == Kind::Recv)
    return group.recv(call);
  bool isSum = call.kind == Kind::AllReduce || call.kind == Kind::ReduceScatter;
  if (isSum && group.size() > 1)
    HEDDLE_RT_RETURN_IF_ERROR(sums.check(call, group.size()));
  HEDDLE_RT_RETURN_IF_ERROR(group.begin(call));
  switch (call.kind) {
  case Kind::AllReduce:
    return runAllReduce(group, call);
  case Kind::ReduceScatter:
    return runReduceScatter(group, call);
  case Kind::AllGather:
    return runAllGather(group, call);
  case Kind::AllToAll:
    return runAllToAll(group, call);
  case Kind::Broadcast:
    return runBroadcast(group, call);
  case Kind::Permute:
    return runPermute(group, call);
  case Kind::Send:
  case Kind::Recv:
    break;
  }
  return Status::error("the kind of a collective is unknown");
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

Status ProcessCommunicator::runAllReduce(ProcessGroup &group,
                                         const Collective &call) {
  auto width = int64_t(byteSize(call.type));
  if (group.size() == 1) {
    copy(call.in, call.out, bytesOf(call));
    return group.leave();
  }
  if (bytesOf(call) <= wholeInputBytes)
    return sums.sumWhole(group, call);
  Slices slices;
  int64_t slice = sliceOfAllReduce(call.count, group.size());
  for (int64_t i = 0; i < group.size(); ++i) {
    slices.begin.push_back(std::min(call.count, i * slice));
    slices.count.push_back(std::min(call.count, (i + 1) * slice) -
                           slices.begin.back());
  }
  auto at = [&](void *buffer, int32_t member) {
    return static_cast<char *>(buffer) + slices.begin[size_t(member)] * width;
  };
  auto bytesOfSlice = [&](int32_t member) {
    return slices.count[size_t(member)] * width;
  };
  char *mine = at(call.out, group.member());
  Messages messages;
  HEDDLE_RT_RETURN_IF_ERROR(sums.sumSlice(group, call, slices, mine, messages));
  // A member's sum arrives only after it has received all inputs of its slice.
  // So in place, too, it overwrites an input that has been sent.
  Messages receives;
  for (int32_t other : group.remote()) {
    group.expect(receives, other, at(call.out, other), bytesOfSlice(other));
    group.post(messages, other, mine, bytesOfSlice(group.member()));
  }
  // Members of this process read each other's inputs up to here.
  HEDDLE_RT_RETURN_IF_ERROR(group.leave());
  for (int32_t i = 0; i < group.size(); ++i)
    if (group.isLocal(i) && i != group.member())
      copy(at(group.outOf(i), i), at(call.out, i), bytesOfSlice(i));
  HEDDLE_RT_RETURN_IF_ERROR(group.waitForAll(receives));
  return group.end(messages);
}

Status ProcessCommunicator::runReduceScatter(ProcessGroup &group,
                                             const Collective &call) {
  Slices slices;
  for (int64_t i = 0; i < group.size(); ++i) {
    slices.begin.push_back(i * call.count);
    slices.count.push_back(call.count);
  }
  Messages messages;
  HEDDLE_RT_RETURN_IF_ERROR(
      sums.sumSlice(group, call, slices, call.out, messages));
  return group.end(messages);
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

Status ProcessCommunicator::runAllGather(ProcessGroup &group,
                                         const Collective &call) {
  int64_t bytes = bytesOf(call);
  auto block = [&](int32_t member) {
    return static_cast<char *>(call.out) + member * bytes;
  };
  Messages messages;
  for (int32_t other : group.remote()) {
    group.expect(messages, other, block(other), bytes);
    group.post(messages, other, call.in, bytes);
  }
  for (int32_t i = 0; i < group.size(); ++i)
    if (group.isLocal(i))
      copy(group.inOf(i), block(i), bytes);
  return group.end(messages);
}

Status ProcessCommunicator::runAllToAll(ProcessGroup &group,
                                        const Collective &call) {
  int64_t bytes = bytesOf(call);
  auto *in = static_cast<const char *>(call.in);
  auto block = [&](int32_t member) {
    return static_cast<char *>(call.out) + member * bytes;
  };
  Messages messages;
  for (int32_t other : group.remote()) {
    group.expect(messages, other, block(other), bytes);
    group.post(messages, other, in + other * bytes, bytes);
  }
  for (int32_t i = 0; i < group.size(); ++i)
    if (group.isLocal(i))
      copy(group.inOf(i) + group.member() * bytes, block(i), bytes);
  return group.end(messages);
}

Status ProcessCommunicator::runBroadcast(ProcessGroup &group,
                                         const Collective &call) {
  int32_t root = call.peer;
  Messages messages;
  if (group.member() == root)
    for (int32_t other : group.remote())
      group.post(messages, other, call.in, bytesOf(call));
  if (group.isLocal(root))
    copy(group.inOf(root), call.out, bytesOf(call));
  else
    group.expect(messages, root, call.out, bytesOf(call));
  return group.end(messages);
}

Status ProcessCommunicator::runPermute(ProcessGroup &group,
                                       const Collective &call) {
  int32_t source = call.sources[group.member()];
  Messages messages;
  for (int32_t other : group.remote())
    if (call.sources[other] == group.member())
      group.post(messages, other, call.in, bytesOf(call));
  if (source < 0)
    std::memset(call.out, 0, size_t(bytesOf(call)));
  else if (group.isLocal(source))
    copy(group.inOf(source), call.out, bytesOf(call));
  else
    group.expect(messages, source, call.out, bytesOf(call));
  return group.end(messages);
}

} // namespace

Expected<std::vector<std::vector<std::unique_ptr<Communicator>>>>
makeProcessCommunicators(const std::vector<MeshAxis> &mesh,
                         const std::vector<GroupInfo> &groups,
                         const std::vector<std::vector<ThreadPool *>> &pools,
                         const std::shared_ptr<Job> &job,
                         const std::vector<int64_t> &staging,
                         const ThreadCommunicatorOptions &options) {
  auto ranks = int32_t(pools.size());
  int64_t all = int64_t(ranks) * job->processes();
  size_t streams = pools.empty() ? 0 : pools.front().size();
  if (groups.size() >= 1u << 12 || streams >= 1u << 6 || all >= 1 << 22)
    return errorOf("expected less than 4096 groups, 64 streams and 4194304 "
                   "ranks to communicate between processes, got ",
                   groups.size(), ", ", streams, " and ", all);
  auto state = std::make_shared<ProcessState>(job);
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators;
  for (int32_t i = 0; i < ranks; ++i) {
    int32_t rank = job->process() * ranks + i;
    auto &ofRank = communicators.emplace_back();
    for (size_t stream = 0; stream < streams; ++stream) {
      std::vector<GroupView> views;
      std::vector<std::optional<ProcessGroup>> members(groups.size());
      for (size_t index = 0; index < groups.size(); ++index) {
        const GroupView &view =
            views.emplace_back(groupOf(mesh, groups[index], rank));
        if (view.member >= 0)
          members[index].emplace(*state, view, int32_t(index), int32_t(stream),
                                 ranks, options);
      }
      ofRank.push_back(std::make_unique<ProcessCommunicator>(
          state, *pools[size_t(i)][stream], std::move(views),
          std::move(members), stream < staging.size() ? staging[stream] : 0));
    }
  }
  state->watch();
  return communicators;
}

} // namespace heddle::runtime
