//===- ThreadCommunicator.cpp - Ranks are threads of one process ----------===//

#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "backends/cpu/communicators/Reduce.h"
#include "backends/cpu/communicators/Rendezvous.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "communicators/CheckedCommunicator.h"
#include "heddle_rt/staging.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace heddle::runtime {

namespace {

/// The state that all ranks of a session share.
struct Shared {
  Failure failure;
  /// The meeting points, by the group's index, the stream and the group's
  /// lowest rank.
  std::map<std::array<int32_t, 3>, std::unique_ptr<Rendezvous>> places;
};

using Kind = Collective::Kind;

class ThreadCommunicator final : public CheckedCommunicator {
public:
  /// `places` are the meeting points of the groups; null if the rank is no
  /// member.
  ThreadCommunicator(std::shared_ptr<Shared> shared, ThreadPool &pool,
                     std::vector<GroupView> groups,
                     std::vector<Rendezvous *> places)
      : CheckedCommunicator(std::move(groups)), shared(std::move(shared)),
        pool(pool), places(std::move(places)) {
    size_t most = 0;
    for (Rendezvous *place : this->places)
      most = std::max(most, place ? size_t(place->size()) : 0);
    ins.resize(most);
    outs.resize(most);
  }

  void abort(const Status &why) override {
    shared->failure.set(why);
    for (auto &[key, place] : shared->places)
      place->interrupt();
  }

private:
  Status run(const Collective &call) override;
  /// Does this member's part of a collective, between `enter` and `leave`.
  void exchange(const Collective &call, const Rendezvous &place,
                int32_t member);
  void runAllReduce(const Collective &call, const Rendezvous &place,
                    int32_t member);
  void runReduceScatter(const Collective &call, const Rendezvous &place,
                        int32_t member);

  /// Copies `bytes` bytes from each member's buffer to `out`, one after the
  /// other, starting at byte `first` of the buffer.
  void copyFromAll(const Rendezvous &place, int64_t first, int64_t bytes,
                   void *out) {
    int64_t pieces = (bytes + grainBytes - 1) / grainBytes;
    pool.run(place.size() * pieces, [&](int64_t task, int) {
      int64_t from = task / pieces, begin = task % pieces * grainBytes;
      std::memcpy(static_cast<char *>(out) + from * bytes + begin,
                  static_cast<const char *>(place.offer(int32_t(from)).in) +
                      first + begin,
                  size_t(std::min(grainBytes, bytes - begin)));
    });
  }

  void copy(const void *from, void *to, int64_t bytes) {
    if (from == to)
      return;
    pool.forRanges(bytes, grainBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char *>(to) + begin,
                  static_cast<const char *>(from) + begin, size_t(end - begin));
    });
  }

  std::shared_ptr<Shared> shared;
  ThreadPool &pool;
  const std::vector<Rendezvous *> places;
  // Scratch for the members' buffers, so that calls allocate nothing.
  std::vector<const void *> ins;
  std::vector<void *> outs;
};

Status ThreadCommunicator::run(const Collective &call) {
  Rendezvous &place = *places[size_t(call.group)];
  int32_t member = viewOf(call).member;
  if (call.kind == Kind::Send)
    return place.send(member, call.peer, call.type, call.in, call.count);
  if (call.kind == Kind::Recv)
    return place.recv(member, call.peer, call.type, call.out, call.count);
  HEDDLE_RT_RETURN_IF_ERROR(place.enter(member, offerOf(call)));
  exchange(call, place, member);
  return place.leave(member);
}

void ThreadCommunicator::exchange(const Collective &call,
                                  const Rendezvous &place, int32_t member) {
  int64_t bytes = call.count * int64_t(byteSize(call.type));
  switch (call.kind) {
  case Kind::AllReduce:
    return runAllReduce(call, place, member);
  case Kind::ReduceScatter:
    return runReduceScatter(call, place, member);
  case Kind::AllGather:
    return copyFromAll(place, 0, bytes, call.out);
  case Kind::AllToAll:
    return copyFromAll(place, member * bytes, bytes, call.out);
  case Kind::Broadcast:
    return copy(place.offer(call.peer).in, call.out, bytes);
  case Kind::Permute:
    if (int32_t source = call.sources[member]; source >= 0)
      copy(place.offer(source).in, call.out, bytes);
    else
      std::memset(call.out, 0, size_t(bytes));
    return;
  case Kind::Send:
  case Kind::Recv:
    return; // not collectives
  }
}

void ThreadCommunicator::runAllReduce(const Collective &call,
                                      const Rendezvous &place, int32_t member) {
  auto members = size_t(place.size());
  auto width = int64_t(byteSize(call.type));
  if (members == 1)
    return copy(call.in, call.out, call.count * width);
  for (size_t i = 0; i < members; ++i) {
    ins[i] = place.offer(int32_t(i)).in;
    outs[i] = place.offer(int32_t(i)).out;
  }
  // Each member's slice is a whole number of cache lines, so no two members
  // write to the same line.
  int64_t slice = sliceOfAllReduce(call.count, int64_t(members));
  int64_t begin = std::min(call.count, member * slice);
  int64_t end = std::min(call.count, begin + slice);
  pool.forRanges(end - begin, grainBytes / width,
                 [&](int64_t from, int64_t to) {
                   reduceInto(call.reduction, call.type, {ins.data(), members},
                              begin + from, {outs.data(), members},
                              begin + from, to - from);
                 });
}

void ThreadCommunicator::runReduceScatter(const Collective &call,
                                          const Rendezvous &place,
                                          int32_t member) {
  auto members = size_t(place.size());
  for (size_t i = 0; i < members; ++i)
    ins[i] = place.offer(int32_t(i)).in;
  pool.forRanges(call.count, grainBytes / int64_t(byteSize(call.type)),
                 [&](int64_t begin, int64_t end) {
                   reduceInto(call.reduction, call.type, {ins.data(), members},
                              member * call.count + begin, {&call.out, 1},
                              begin, end - begin);
                 });
}

} // namespace

std::vector<std::vector<std::unique_ptr<Communicator>>>
makeThreadCommunicators(const std::vector<MeshAxis> &mesh,
                        const std::vector<GroupInfo> &groups,
                        const std::vector<std::vector<ThreadPool *>> &pools,
                        const ThreadCommunicatorOptions &options) {
  auto shared = std::make_shared<Shared>();
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators;
  for (size_t i = 0; i < pools.size(); ++i) {
    int32_t rank = options.ranks.empty() ? int32_t(i) : options.ranks[i];
    auto &ofRank = communicators.emplace_back();
    for (size_t stream = 0; stream < pools[i].size(); ++stream) {
      std::vector<GroupView> views;
      std::vector<Rendezvous *> places;
      for (size_t group = 0; group < groups.size(); ++group) {
        const GroupView &view =
            views.emplace_back(groupOf(mesh, groups[group], rank));
        if (view.member < 0) {
          places.push_back(nullptr);
          continue;
        }
        auto &place =
            shared
                ->places[{int32_t(group), int32_t(stream), view.ranks.front()}];
        if (!place)
          place = std::make_unique<Rendezvous>(view.ranks, shared->failure,
                                               options);
        places.push_back(place.get());
      }
      ofRank.push_back(std::make_unique<ThreadCommunicator>(
          shared, *pools[i][stream], std::move(views), std::move(places)));
    }
  }
  return communicators;
}

} // namespace heddle::runtime
