//===- ThreadCommunicator.cpp - Ranks are threads of one process ----------===//

#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "backends/cpu/communicators/Reduce.h"
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
/// Bytes of a block of an in-place permute.
constexpr int64_t bounceBytes = 256 << 10;

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
    if (place->size() > 1)
      bounce.resize(size_t(bounceBytes));
  }

  Status allReduce(int32_t group, Reduction reduction, DType type,
                   const void *in, void *out, int64_t count) override;
  Status allGather(int32_t group, DType type, const void *in, void *out,
                   int64_t outer, int64_t local, int64_t total,
                   int64_t inner) override;
  Status reduceScatter(int32_t group, Reduction reduction, DType type,
                       const void *in, void *out, int64_t outer, int64_t local,
                       int64_t total, int64_t inner) override;
  Status allToAll(int32_t group, DType type, const void *in, void *out,
                  const AllToAll &sizes) override;
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
    if (group < 0 || size_t(group) >= groups.size())
      return errorOf("group ", group, " does not exist: the artifact has ",
                     groups.size());
    if (!groups[size_t(group)].place)
      return errorOf("group ", group, " has this rank as no member");
    return groups[size_t(group)];
  }
  Status checkPeer(const Group &group, int32_t peer) const {
    if (peer >= 0 && peer < group.place->size() && peer != group.member)
      return Status::success();
    return errorOf("expected another member of a group of ",
                   group.place->size(), " as peer, got ", peer);
  }
  Status checkReducible(DType type) const {
    return isReducible(type)
               ? Status::success()
               : errorOf("elements of type ", name(type), " cannot be reduced");
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
  std::vector<char> bounce;
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
                                     void *out, int64_t outer, int64_t local,
                                     int64_t total, int64_t inner) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  auto [place, member] = *found;
  int64_t members = place->size();
  if (total > members * local)
    return errorOf("all_gather: expected at most ", members * local,
                   " rows from ", members, " members of ", local, ", got ",
                   total);
  HEDDLE_RT_RETURN_IF_ERROR(place->enter(
      member, {"all_gather", type, outer * local * inner, total, in, out}));
  int64_t row = inner * int64_t(byteSize(type));
  // One task copies the rows that one member contributes, for some indices of
  // the outer dimension.
  int64_t outerGrain =
      std::max<int64_t>(1, grainBytes / std::max<int64_t>(1, local * row));
  int64_t outerTasks = (outer + outerGrain - 1) / outerGrain;
  pool.run(outerTasks * members, [&](int64_t task, int) {
    int64_t from = task / outerTasks;
    int64_t begin = task % outerTasks * outerGrain;
    int64_t end = std::min(outer, begin + outerGrain);
    int64_t rows = std::clamp<int64_t>(total - from * local, 0, local);
    auto *source = static_cast<const char *>(place->offer(int32_t(from)).in);
    if (rows == 0 || (in == out && from == member))
      return;
    for (int64_t o = begin; o < end; ++o)
      std::memcpy(static_cast<char *>(out) + (o * total + from * local) * row,
                  source + o * local * row, size_t(rows * row));
  });
  return place->leave(member);
}

Status ThreadCommunicator::reduceScatter(int32_t group, Reduction reduction,
                                         DType type, const void *in, void *out,
                                         int64_t outer, int64_t local,
                                         int64_t total, int64_t inner) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkReducible(type));
  auto [place, member] = *found;
  int64_t members = place->size();
  if (total > members * local)
    return errorOf("reduce_scatter: expected at most ", members * local,
                   " rows for ", members, " members of ", local, ", got ",
                   total);
  if (in == out && members > 1)
    return errorOf("reduce_scatter: expected different buffers for input and "
                   "output");
  HEDDLE_RT_RETURN_IF_ERROR(
      place->enter(member, {"reduce_scatter", type, outer * total * inner,
                            local * 2 + reduction, in, out}));
  for (int64_t i = 0; i < members; ++i)
    ins[size_t(i)] = place->offer(int32_t(i)).in;
  int64_t rows = std::clamp<int64_t>(total - member * local, 0, local);
  int64_t run = rows * inner, padding = (local - rows) * inner;
  int64_t bytes = int64_t(byteSize(type));
  int64_t grain = grainBytes / bytes;
  int64_t pieces = std::max<int64_t>(1, (run + grain - 1) / grain);
  pool.run(outer * pieces, [&](int64_t task, int) {
    int64_t o = task / pieces, piece = task % pieces;
    int64_t begin = piece * grain, end = std::min(run, begin + grain);
    if (in != out && begin < end)
      reduceInto(reduction, type, {ins.data(), size_t(members)},
                 (o * total + member * local) * inner + begin, {&out, 1},
                 o * local * inner + begin, end - begin);
    if (piece == 0 && padding)
      std::memset(static_cast<char *>(out) + (o * local * inner + run) * bytes,
                  0, size_t(padding * bytes));
  });
  return place->leave(member);
}

Status ThreadCommunicator::allToAll(int32_t group, DType type, const void *in,
                                    void *out, const AllToAll &sizes) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  auto [place, member] = *found;
  int64_t members = place->size();
  const AllToAll &s = sizes;
  if (s.splitTotal > members * s.splitLocal ||
      s.concatTotal > members * s.concatLocal)
    return errorOf("all_to_all: expected at most ", members, " x ",
                   s.splitLocal, " rows to split and ", members, " x ",
                   s.concatLocal, " to concatenate, got ", s.splitTotal,
                   " and ", s.concatTotal);
  if (in == out)
    return errorOf("all_to_all: expected different buffers for input and "
                   "output");
  HEDDLE_RT_RETURN_IF_ERROR(place->enter(
      member, {"all_to_all", type,
               s.outer * s.splitTotal * s.middle * s.concatLocal * s.inner,
               s.concatTotal * 2 + s.splitFirst, in, out}));
  int64_t row = s.inner * int64_t(byteSize(type));
  auto source = [&](int64_t from) {
    return static_cast<const char *>(place->offer(int32_t(from)).in);
  };
  auto *to = static_cast<char *>(out);
  int64_t valid = std::clamp<int64_t>(s.splitTotal - member * s.splitLocal, 0,
                                      s.splitLocal);
  if (s.splitFirst)
    pool.run(s.outer * s.splitLocal, [&](int64_t task, int) {
      int64_t o = task / s.splitLocal, i = task % s.splitLocal;
      char *slab = to + task * s.middle * s.concatTotal * row;
      if (i >= valid) {
        std::memset(slab, 0, size_t(s.middle * s.concatTotal * row));
        return;
      }
      int64_t first = (o * s.splitTotal + member * s.splitLocal + i) * s.middle;
      for (int64_t m = 0; m < s.middle; ++m)
        for (int64_t from = 0; from < members; ++from) {
          int64_t rows = std::clamp<int64_t>(
              s.concatTotal - from * s.concatLocal, 0, s.concatLocal);
          std::memcpy(slab + (m * s.concatTotal + from * s.concatLocal) * row,
                      source(from) + (first + m) * s.concatLocal * row,
                      size_t(rows * row));
        }
    });
  else
    pool.run(s.outer * s.concatTotal, [&](int64_t task, int) {
      int64_t o = task / s.concatTotal, c = task % s.concatTotal;
      int64_t from = c / s.concatLocal, local = c % s.concatLocal;
      int64_t first = (o * s.concatLocal + local) * s.middle;
      for (int64_t m = 0; m < s.middle; ++m) {
        char *run = to + (task * s.middle + m) * s.splitLocal * row;
        std::memcpy(run,
                    source(from) +
                        ((first + m) * s.splitTotal + member * s.splitLocal) *
                            row,
                    size_t(valid * row));
        std::memset(run + valid * row, 0, size_t((s.splitLocal - valid) * row));
      }
    });
  return place->leave(member);
}

Status ThreadCommunicator::broadcast(int32_t group, int32_t root, DType type,
                                     const void *in, void *out, int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  auto [place, member] = *found;
  if (root < 0 || root >= place->size())
    return errorOf("broadcast: expected a root below ", place->size(), ", got ",
                   root);
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
  auto [place, member] = *found;
  int32_t source = sources[member];
  if (source < -1 || source >= place->size())
    return errorOf("permute: expected sources below ", place->size(), ", got ",
                   source);
  Offer offer{"permute", type, count, 0, in, out};
  HEDDLE_RT_RETURN_IF_ERROR(place->enter(member, offer));
  int64_t bytes = count * int64_t(byteSize(type));
  bool inPlace = false;
  for (int32_t i = 0; i < place->size(); ++i)
    inPlace |= place->offer(i).in == place->offer(i).out;
  if (!inPlace) {
    if (source < 0)
      std::memset(out, 0, size_t(bytes));
    else
      copy(place->offer(source).in, out, bytes);
    return place->leave(member);
  }
  // Some member's output is its input, which a peer still reads. So all members
  // go block by block: all read, then all write.
  for (int64_t begin = 0; begin < bytes; begin += bounceBytes) {
    size_t size = size_t(std::min(bounceBytes, bytes - begin));
    if (source >= 0)
      std::memcpy(bounce.data(),
                  static_cast<const char *>(place->offer(source).in) + begin,
                  size);
    HEDDLE_RT_RETURN_IF_ERROR(place->leave(member));
    if (source >= 0)
      std::memcpy(static_cast<char *>(out) + begin, bounce.data(), size);
    else
      std::memset(static_cast<char *>(out) + begin, 0, size);
    HEDDLE_RT_RETURN_IF_ERROR(place->enter(member, offer));
  }
  return place->leave(member);
}

Status ThreadCommunicator::send(int32_t group, int32_t peer, DType type,
                                const void *from, int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkPeer(*found, peer));
  return found->place->send(found->member, peer, type, from, count);
}

Status ThreadCommunicator::recv(int32_t group, int32_t peer, DType type,
                                void *to, int64_t count) {
  Expected<Group> found = find(group);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkPeer(*found, peer));
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
