//===- ThreadCommunicator.cpp - Ranks are threads of one process ----------===//

#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "backends/cpu/communicators/Arguments.h"
#include "backends/cpu/communicators/Rendezvous.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "support/Message.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace heddle::runtime {

namespace {

/// Bytes that one core copies or sums at a time.
constexpr int64_t grainBytes = 128 << 10;

/// The state that all ranks of a session share.
struct Shared {
  Failure failure;
  /// The meeting points, by the group's index, the stream and the group's
  /// lowest rank.
  std::map<std::array<int32_t, 3>, std::unique_ptr<Rendezvous>> places;
};

class ThreadCommunicator final : public Communicator {
public:
  ThreadCommunicator(std::shared_ptr<Shared> shared, ThreadPool &pool)
      : shared(std::move(shared)), pool(pool) {}

  /// Joins the next group. `place` is null if the rank is no member.
  void join(Rendezvous *place, int32_t member) {
    groups.push_back({place, member});
    if (!place)
      return;
    if (ins.size() < size_t(place->size())) {
      ins.resize(size_t(place->size()));
      outs.resize(size_t(place->size()));
    }
  }

  int32_t groupSize(int32_t group) const override {
    Expected<Group> found = find(group);
    return found.ok() ? found->place->size() : 0;
  }

  Status allReduce(int32_t group, Reduction reduction, DType type,
                   const void *in, void *out, int64_t count) override;
  Status allGather(int32_t group, DType type, const void *in, void *out,
                   int64_t count) override;
  Status reduceScatter(int32_t group, Reduction reduction, DType type,
                       const void *in, void *out, int64_t count) override;
  Status allToAll(int32_t group, DType type, const void *in, void *out,
                  int64_t count) override;
  Status broadcast(int32_t group, int32_t root, DType type, const void *in,
                   void *out, int64_t count) override;
  Status permute(int32_t group, const int32_t *sources, DType type,
                 const void *in, void *out, int64_t count) override;
  Status send(int32_t group, int32_t peer, DType type, const void *from,
              int64_t count) override;
  Status recv(int32_t group, int32_t peer, DType type, void *to,
              int64_t count) override;
  void abort(const Status &why) override {
    shared->failure.set(why);
    for (auto &[key, place] : shared->places)
      place->interrupt();
  }

private:
  struct Group {
    Rendezvous *place;
    int32_t member;
  };

  Expected<Group> find(int32_t group) const {
    HEDDLE_RT_RETURN_IF_ERROR(checkGroup(group, groups.size(),
                                         size_t(group) < groups.size() &&
                                             groups[size_t(group)].place));
    return groups[size_t(group)];
  }
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
  std::vector<Group> groups;
  // Scratch for the members' buffers, so that calls allocate nothing.
  std::vector<const void *> ins;
  std::vector<void *> outs;
};

Status ThreadCommunicator::allReduce(int32_t group, Reduction reduction,
                                     DType type, const void *in, void *out,
                                     int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkReducible(type));
  auto [place, member] = *found;
  size_t members = size_t(place->size());
  if (members == 1) {
    copy(in, out, count * int64_t(byteSize(type)));
    return Status::success();
  }
  HEDDLE_RT_RETURN_IF_ERROR(
      place->enter(member, {"all_reduce", type, count, reduction, in, out}));
  for (size_t i = 0; i < members; ++i) {
    ins[i] = place->offer(int32_t(i)).in;
    outs[i] = place->offer(int32_t(i)).out;
  }
  // Each member's slice is a whole number of cache lines, so no two members
  // write to the same line.
  int64_t slice = (count + int64_t(members) - 1) / int64_t(members);
  slice = (slice + 63) / 64 * 64;
  int64_t begin = std::min(count, member * slice);
  int64_t end = std::min(count, begin + slice);
  pool.forRanges(end - begin, grainBytes / int64_t(byteSize(type)),
                 [&](int64_t from, int64_t to) {
                   reduceInto(reduction, type, {ins.data(), members},
                              begin + from, {outs.data(), members},
                              begin + from, to - from);
                 });
  return place->leave(member);
}

Status ThreadCommunicator::allGather(int32_t group, DType type, const void *in,
                                     void *out, int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkSeparate("all_gather", in, out));
  auto [place, member] = *found;
  HEDDLE_RT_RETURN_IF_ERROR(
      place->enter(member, {"all_gather", type, count, 0, in, out}));
  copyFromAll(*place, 0, count * int64_t(byteSize(type)), out);
  return place->leave(member);
}

Status ThreadCommunicator::reduceScatter(int32_t group, Reduction reduction,
                                         DType type, const void *in, void *out,
                                         int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkReducible(type));
  HEDDLE_RT_RETURN_IF_ERROR(checkSeparate("reduce_scatter", in, out));
  auto [place, member] = *found;
  size_t members = size_t(place->size());
  HEDDLE_RT_RETURN_IF_ERROR(place->enter(
      member, {"reduce_scatter", type, count, reduction, in, out}));
  for (size_t i = 0; i < members; ++i)
    ins[i] = place->offer(int32_t(i)).in;
  pool.forRanges(count, grainBytes / int64_t(byteSize(type)),
                 [&](int64_t begin, int64_t end) {
                   reduceInto(reduction, type, {ins.data(), members},
                              member * count + begin, {&out, 1}, begin,
                              end - begin);
                 });
  return place->leave(member);
}

Status ThreadCommunicator::allToAll(int32_t group, DType type, const void *in,
                                    void *out, int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkSeparate("all_to_all", in, out));
  auto [place, member] = *found;
  HEDDLE_RT_RETURN_IF_ERROR(
      place->enter(member, {"all_to_all", type, count, 0, in, out}));
  int64_t bytes = count * int64_t(byteSize(type));
  copyFromAll(*place, member * bytes, bytes, out);
  return place->leave(member);
}

Status ThreadCommunicator::broadcast(int32_t group, int32_t root, DType type,
                                     const void *in, void *out, int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  auto [place, member] = *found;
  HEDDLE_RT_RETURN_IF_ERROR(checkRoot(place->size(), root));
  HEDDLE_RT_RETURN_IF_ERROR(
      place->enter(member, {"broadcast", type, count, root, in, out}));
  copy(place->offer(root).in, out, count * int64_t(byteSize(type)));
  return place->leave(member);
}

Status ThreadCommunicator::permute(int32_t group, const int32_t *sources,
                                   DType type, const void *in, void *out,
                                   int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkSeparate("permute", in, out));
  auto [place, member] = *found;
  int32_t source = sources[member];
  HEDDLE_RT_RETURN_IF_ERROR(checkSource(place->size(), source));
  HEDDLE_RT_RETURN_IF_ERROR(
      place->enter(member, {"permute", type, count, 0, in, out}));
  int64_t bytes = count * int64_t(byteSize(type));
  if (source < 0)
    std::memset(out, 0, size_t(bytes));
  else
    copy(place->offer(source).in, out, bytes);
  return place->leave(member);
}

Status ThreadCommunicator::send(int32_t group, int32_t peer, DType type,
                                const void *from, int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(
      checkPeer(found->place->size(), found->member, peer));
  return found->place->send(found->member, peer, type, from, count);
}

Status ThreadCommunicator::recv(int32_t group, int32_t peer, DType type,
                                void *to, int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(
      checkPeer(found->place->size(), found->member, peer));
  return found->place->recv(found->member, peer, type, to, count);
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
      auto communicator =
          std::make_unique<ThreadCommunicator>(shared, *pools[i][stream]);
      for (size_t group = 0; group < groups.size(); ++group) {
        GroupView view = groupOf(mesh, groups[group], rank);
        if (view.member < 0) {
          communicator->join(nullptr, -1);
          continue;
        }
        auto &place =
            shared
                ->places[{int32_t(group), int32_t(stream), view.ranks.front()}];
        if (!place)
          place = std::make_unique<Rendezvous>(view.ranks, shared->failure,
                                               options);
        communicator->join(place.get(), view.member);
      }
      ofRank.push_back(std::move(communicator));
    }
  }
  return communicators;
}

} // namespace heddle::runtime
