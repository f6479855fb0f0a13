//===- EmulatedLinks.cpp - Communication as slow as a network's -----------===//

#include "communicators/EmulatedLinks.h"
#include "communicators/Collective.h"
#include "support/Message.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

namespace heddle::runtime {

using Kind = Collective::Kind;

static int64_t bytesOf(const Collective &call) {
  return std::max<int64_t>(0, call.count) * int64_t(byteSize(call.type));
}

Traffic trafficOf(const Collective &call, std::span<const int32_t> ranks,
                  const Links &links) {
  int64_t bytes = bytesOf(call);
  switch (call.kind) {
  case Kind::AllReduce:
    return links.allReduce(ranks, bytes);
  case Kind::AllGather:
  case Kind::ReduceScatter:
    return links.allGather(ranks, bytes);
  case Kind::AllToAll:
    return links.allToAll(ranks, bytes);
  case Kind::Broadcast:
    return links.broadcast(ranks, bytes);
  case Kind::Permute:
    return links.permute(ranks, call.sources, bytes);
  case Kind::Send:
  case Kind::Recv:
    break;
  }
  return {};
}

namespace {

/// The flows of one group: those of collectives that not all members have
/// called yet, and those of transfers that were not received yet.
class Meeting {
public:
  explicit Meeting(std::vector<int32_t> ranks)
      : ranks(std::move(ranks)), calls(this->ranks.size()) {}

  /// Lets `member`, which is ready at `time`, enter its next collective. The
  /// flow of the collective begins when the last member is ready, with the
  /// traffic that makeTraffic() returns.
  template <typename MakeTraffic>
  std::shared_ptr<Flow> enter(int32_t member, Network &network, int64_t time,
                              MakeTraffic &&makeTraffic) {
    std::lock_guard lock(mutex);
    Round &round = rounds[calls[size_t(member)]++];
    if (!round.flow)
      round.flow = std::make_shared<Flow>();
    std::shared_ptr<Flow> flow = round.flow;
    round.begin = std::max(round.begin, time);
    if (++round.arrived == ranks.size()) {
      flow->traffic = makeTraffic();
      network.begin(flow, round.begin);
      // All members have entered every earlier collective too.
      rounds.erase(rounds.begin());
    }
    return flow;
  }

  /// Returns the ranks that have not entered the last collective of `member`.
  std::string missing(int32_t member) {
    std::lock_guard lock(mutex);
    std::string names;
    for (size_t i = 0; i < ranks.size(); ++i)
      if (calls[i] < calls[size_t(member)])
        names += concat(names.empty() ? "" : ", ", ranks[i]);
    return names;
  }

  std::shared_ptr<Flow> send(int32_t member, int32_t peer, Network &network,
                             int64_t time, int64_t bytes) {
    std::lock_guard lock(mutex);
    auto flow = std::make_shared<Flow>();
    flow->traffic = network.links().transfer(ranks[size_t(member)],
                                             ranks[size_t(peer)], bytes);
    network.begin(flow, time);
    sent[{member, peer}].push_back(flow);
    return flow;
  }
  /// Returns the flow of the oldest transfer from `peer` that `member` has not
  /// taken yet. It has been sent.
  std::shared_ptr<Flow> take(int32_t member, int32_t peer) {
    std::lock_guard lock(mutex);
    std::deque<std::shared_ptr<Flow>> &flows = sent[{peer, member}];
    std::shared_ptr<Flow> flow = flows.front();
    flows.pop_front();
    return flow;
  }

  const std::vector<int32_t> ranks;

private:
  struct Round {
    std::shared_ptr<Flow> flow;
    size_t arrived = 0;
    int64_t begin = 0;
  };

  std::mutex mutex;            ///< guards what follows
  std::vector<uint64_t> calls; ///< collectives that each member has entered
  std::map<uint64_t, Round> rounds; ///< by number, those not begun
  /// By sender and receiver, the oldest first.
  std::map<std::pair<int32_t, int32_t>, std::deque<std::shared_ptr<Flow>>> sent;
};

class EmulatedLinks final : public Communicator {
public:
  EmulatedLinks(std::unique_ptr<Communicator> inner,
                std::shared_ptr<Network> network,
                std::chrono::milliseconds timeout)
      : inner(std::move(inner)), network(std::move(network)), timeout(timeout) {
  }

  void join(std::shared_ptr<Meeting> meeting, int32_t member) {
    groups.push_back({std::move(meeting), member});
  }

  int32_t groupSize(int32_t group) const override {
    return inner->groupSize(group);
  }

  Status perform(const Collective &call) override {
    const Group *group = find(call.group);
    if (!group)
      return inner->perform(call);
    switch (call.kind) {
    case Kind::Send:
      return send(*group, call);
    case Kind::Recv:
      return recv(*group, call);
    default:
      return collective(*group, call);
    }
  }

  void abort(const Status &why) override {
    inner->abort(why);
    network->interrupt();
  }

private:
  struct Group {
    std::shared_ptr<Meeting> meeting;
    int32_t member;
  };

  /// Returns null for a group in which nothing is sent. The inner communicator
  /// refuses a group that does not exist, and one of which the rank is no
  /// member.
  const Group *find(int32_t group) const {
    if (group < 0 || size_t(group) >= groups.size() ||
        !groups[size_t(group)].meeting ||
        groups[size_t(group)].meeting->ranks.size() < 2)
      return nullptr;
    return &groups[size_t(group)];
  }
  /// Returns when the links could begin a call: when its operands
  /// were there and the stream's last flow was over.
  int64_t getReadyTime(const Collective &call) const {
    if (call.ready == 0)
      return std::chrono::nanoseconds(
                 std::chrono::steady_clock::now().time_since_epoch())
          .count();
    return last ? std::max(call.ready, network->getEnd(*last)) : call.ready;
  }
  static bool isPeer(const Group &group, int32_t peer) {
    return peer >= 0 && size_t(peer) < group.meeting->ranks.size() &&
           peer != group.member;
  }

  Status send(const Group &group, const Collective &call) {
    if (!isPeer(group, call.peer))
      return inner->perform(call);
    std::shared_ptr<Flow> flow = group.meeting->send(
        group.member, call.peer, *network, getReadyTime(call), bytesOf(call));
    last = flow;
    HEDDLE_RT_RETURN_IF_ERROR(inner->perform(call));
    network->waitFor(*flow, timeout);
    return Status::success();
  }

  Status recv(const Group &group, const Collective &call) {
    HEDDLE_RT_RETURN_IF_ERROR(inner->perform(call));
    if (!isPeer(group, call.peer))
      return Status::success();
    last = group.meeting->take(group.member, call.peer);
    network->waitFor(*last, timeout);
    return Status::success();
  }

  /// Runs the call on the inner communicator, and waits until the network has
  /// carried its traffic.
  Status collective(const Group &group, const Collective &call) {
    Meeting &meeting = *group.meeting;
    std::shared_ptr<Flow> flow =
        meeting.enter(group.member, *network, getReadyTime(call), [&] {
          return trafficOf(call, meeting.ranks, network->links());
        });
    last = flow;
    HEDDLE_RT_RETURN_IF_ERROR(inner->perform(call));
    // After an interruption, the next call reports the failure.
    if (network->waitFor(*flow, timeout) != Network::Wait::NotBegun)
      return Status::success();
    Status status =
        errorOf("device ", meeting.missing(group.member), " did not arrive at ",
                name(call.kind), " within ", double(timeout.count()) / 1000,
                " s: it is hung or dead, or runs another program");
    abort(status);
    return status;
  }

  std::unique_ptr<Communicator> inner;
  std::shared_ptr<Network> network;
  std::chrono::milliseconds timeout;
  std::vector<Group> groups;
  std::shared_ptr<Flow> last; ///< of this rank on this stream
};

} // namespace

std::vector<std::vector<std::unique_ptr<Communicator>>> emulateLinks(
    std::vector<std::vector<std::unique_ptr<Communicator>>> communicators,
    const std::vector<MeshAxis> &mesh, const std::vector<GroupInfo> &groups,
    const std::shared_ptr<Network> &network,
    std::chrono::milliseconds timeout) {
  // The meeting of each group, by stream, the group's index and its first rank.
  std::map<std::tuple<size_t, size_t, int32_t>, std::shared_ptr<Meeting>>
      meetings;
  for (size_t rank = 0; rank < communicators.size(); ++rank)
    for (size_t stream = 0; stream < communicators[rank].size(); ++stream) {
      std::unique_ptr<Communicator> &communicator = communicators[rank][stream];
      auto links = std::make_unique<EmulatedLinks>(std::move(communicator),
                                                   network, timeout);
      for (size_t group = 0; group < groups.size(); ++group) {
        GroupView view = groupOf(mesh, groups[group], int32_t(rank));
        if (view.member < 0) {
          links->join(nullptr, -1);
          continue;
        }
        auto &meeting = meetings[{stream, group, view.ranks.front()}];
        if (!meeting)
          meeting = std::make_shared<Meeting>(view.ranks);
        links->join(meeting, view.member);
      }
      communicator = std::move(links);
    }
  return communicators;
}

} // namespace heddle::runtime
