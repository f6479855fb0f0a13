//===- ProcessCommunicator.cpp - Ranks in several processes ---------------===//

#include "backends/cpu/communicators/ProcessCommunicator.h"
#include "backends/cpu/communicators/Arguments.h"
#include "backends/cpu/communicators/Errors.h"
#include "backends/cpu/communicators/Rendezvous.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "communicators/Collective.h"
#include "communicators/Transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace heddle::runtime {

namespace {

using Kind = Collective::Kind;
using Clock = Transport::Clock;
using Messages = std::vector<std::unique_ptr<Transport::Message>>;

/// Bytes that one core copies or sums at a time.
constexpr int64_t grainBytes = 128 << 10;
/// Bytes of the pieces under way to a member; there are two sets of pieces.
constexpr int64_t stagingBytes = 4 << 20;
/// Inputs of at most so many bytes are sent whole.
constexpr int64_t smallBytes = 16 << 10;

/// What a member calls. All members of a collective must agree on it.
struct Header {
  int64_t kind = 0, type = 0, count = 0, detail = 0;
};

/// The state that the ranks of this process share.
struct Shared {
  explicit Shared(std::shared_ptr<Job> joined)
      : job(std::move(joined)),
        failure([this](const Status &why) { return job->fail(why); }) {}
  ~Shared() { job->forget(callback); }

  /// Passes on failures of other processes. Called when `places` is complete.
  void watch() {
    callback = job->onFailure([this](const Status &why) {
      failure.record(why);
      for (auto &[key, place] : places)
        place->interrupt();
    });
  }

  /// Returns why a message failed.
  Status failureOfConnection() {
    Status first = job->awaitFailure(std::chrono::seconds(2));
    if (first.ok())
      failure.set(error("the connection to another process is broken"));
    else
      failure.record(first);
    return failure.get();
  }

  std::shared_ptr<Job> job;
  Failure failure;
  /// The meeting points of members in this process, by the group's index, the
  /// stream and the lowest rank of all members.
  std::map<std::array<int32_t, 3>, std::unique_ptr<Rendezvous>> places;
  uint64_t callback = 0;
};

/// A group with this rank as a member.
struct Group {
  int32_t index = 0, stream = 0;
  int32_t member = -1;                   ///< of this rank; -1: it is no member
  std::vector<int32_t> ranks, processes; ///< by member
  std::vector<int32_t> local;  ///< by member: its index in `place`, or -1
  std::vector<int32_t> remote; ///< the members in other processes
  Rendezvous *place = nullptr;
  ThreadCommunicatorOptions options;

  int32_t size() const { return int32_t(ranks.size()); }
  uint64_t slot(SlotPurpose purpose, int32_t from, int32_t to) const {
    return slotOf(purpose, index, stream, ranks[size_t(from)],
                  ranks[size_t(to)]);
  }
};

class ProcessCommunicator final : public Communicator {
public:
  ProcessCommunicator(std::shared_ptr<Shared> shared, ThreadPool &pool)
      : shared(std::move(shared)), transport(this->shared->job->transport()),
        pool(pool) {}

  void join(Group group) { groups.push_back(std::move(group)); }

  int32_t groupSize(int32_t group) const override {
    return group >= 0 && size_t(group) < groups.size() &&
                   groups[size_t(group)].member >= 0
               ? groups[size_t(group)].size()
               : 0;
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
  /// The elements of an input that each member sums.
  struct Slices {
    std::vector<int64_t> begin, count; ///< by member
  };

  Expected<Group *> find(int32_t group);
  Status begin(Group &group, Kind kind, const Header &header, const void *in,
               void *out);
  /// Ends a collective: afterwards no member touches another one's buffers.
  Status end(Group &group, Messages &messages) {
    HEDDLE_RT_RETURN_IF_ERROR(waitForAll(messages));
    return group.place->leave(group.local[size_t(group.member)]);
  }
  Status waitForAll(Messages &messages);

  /// Sends bytes to a member of another process; empty messages are not sent.
  void post(const Group &group, Messages &messages, int32_t to,
            const void *data, int64_t bytes) {
    if (bytes > 0)
      messages.push_back(
          transport.send(group.processes[size_t(to)],
                         group.slot(SlotPurpose::Data, group.member, to), data,
                         size_t(bytes)));
  }
  void expect(const Group &group, Messages &messages, int32_t from, void *data,
              int64_t bytes) {
    if (bytes > 0)
      messages.push_back(
          transport.receive(group.processes[size_t(from)],
                            group.slot(SlotPurpose::Data, from, group.member),
                            data, size_t(bytes)));
  }
  /// Returns the input or output that a member of this process has announced.
  static const char *inOf(const Group &group, int32_t member) {
    return static_cast<const char *>(
        group.place->offer(group.local[size_t(member)]).in);
  }
  static char *outOf(const Group &group, int32_t member) {
    return static_cast<char *>(
        group.place->offer(group.local[size_t(member)]).out);
  }

  Status reduceSlice(Group &group, Reduction reduction, DType type,
                     const void *in, const Slices &slices, void *to,
                     Messages &sends);
  Status reduceWhole(Group &group, Reduction reduction, DType type,
                     const void *in, void *out, int64_t count);

  void copy(const void *from, void *to, int64_t bytes) {
    if (from == to)
      return;
    pool.forRanges(bytes, grainBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char *>(to) + begin,
                  static_cast<const char *>(from) + begin, size_t(end - begin));
    });
  }

  std::shared_ptr<Shared> shared;
  Transport &transport;
  ThreadPool &pool;
  std::vector<Group> groups;
  std::vector<char> staging;
};

Expected<Group *> ProcessCommunicator::find(int32_t group) {
  HEDDLE_RT_RETURN_IF_ERROR(checkGroup(group, groups.size(),
                                       size_t(group) < groups.size() &&
                                           groups[size_t(group)].member >= 0));
  return &groups[size_t(group)];
}

Status ProcessCommunicator::waitForAll(Messages &messages) {
  for (auto &message : messages)
    if (message->wait(Clock::time_point::max()) !=
        Transport::Message::End::Done)
      return shared->failureOfConnection();
  messages.clear();
  return Status::success();
}

/// Meets all other members and checks that they call the same.
Status ProcessCommunicator::begin(Group &group, Kind kind, const Header &header,
                                  const void *in, void *out) {
  if (shared->failure.isSet())
    return shared->failure.get();
  Clock::time_point deadline = Clock::now() + group.options.timeout;
  auto members = size_t(group.size());
  std::vector<Header> headers(members);
  headers[size_t(group.member)] = header;
  Messages receives, sends;
  for (int32_t other : group.remote) {
    int32_t process = group.processes[size_t(other)];
    receives.push_back(transport.receive(
        process, group.slot(SlotPurpose::Header, other, group.member),
        &headers[size_t(other)], sizeof(Header)));
    sends.push_back(transport.send(
        process, group.slot(SlotPurpose::Header, group.member, other),
        &headers[size_t(group.member)], sizeof(Header)));
  }
  HEDDLE_RT_RETURN_IF_ERROR(group.place->enterUnchecked(
      group.local[size_t(group.member)],
      {name(kind), header.type, header.count, header.detail, in, out}));

  std::string missing;
  for (size_t i = 0; i < receives.size(); ++i)
    switch (receives[i]->wait(deadline)) {
    case Transport::Message::End::Done:
      break;
    case Transport::Message::End::Late:
      missing += concat(missing.empty() ? "" : ", ",
                        group.ranks[size_t(group.remote[i])]);
      break;
    case Transport::Message::End::Failed:
      return shared->failureOfConnection();
    }
  if (!missing.empty()) {
    shared->failure.set(didNotArrive(missing, name(kind), group.options));
    return shared->failure.get();
  }
  auto callOf = [&](size_t i) -> MemberCall {
    int32_t rank = group.ranks[i];
    if (group.local[i] < 0)
      return {rank, name(Kind(headers[i].kind)), headers[i].type,
              headers[i].count, headers[i].detail};
    const Offer &offer = group.place->offer(group.local[i]);
    return {rank, offer.operation, offer.type, offer.count, offer.detail};
  };
  for (size_t i = 1; i < members; ++i)
    if (Status agreed = checkAgreement(callOf(0), callOf(i)); !agreed.ok()) {
      shared->failure.set(agreed);
      return shared->failure.get();
    }
  return waitForAll(sends);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Sums this member's slice of all inputs into `to`, and sends the slices of
/// the others. `to` may be the place of the slice in `in`.
Status ProcessCommunicator::reduceSlice(Group &group, Reduction reduction,
                                        DType type, const void *in,
                                        const Slices &slices, void *to,
                                        Messages &sends) {
  auto width = int64_t(byteSize(type));
  int64_t piece =
      std::max<int64_t>(stagingBytes / group.size() / 64 * 64, 4096) / width;
  for (int32_t other : group.remote)
    for (int64_t done = 0, all = slices.count[size_t(other)]; done < all;
         done += piece)
      post(group, sends, other,
           static_cast<const char *>(in) +
               (slices.begin[size_t(other)] + done) * width,
           std::min(piece, all - done) * width);

  int64_t first = slices.begin[size_t(group.member)];
  int64_t count = slices.count[size_t(group.member)];
  int64_t set = piece * width * int64_t(group.remote.size());
  staging.resize(std::max(staging.size(), size_t(2 * set)));
  std::array<Messages, 2> receives;
  auto expectPiece = [&](int64_t done) {
    size_t which = size_t(done / piece % 2);
    for (size_t i = 0; i < group.remote.size(); ++i)
      expect(group, receives[which], group.remote[i],
             staging.data() + int64_t(which) * set + int64_t(i) * piece * width,
             std::min(piece, count - done) * width);
  };
  std::vector<const void *> ins(size_t(group.size()));
  expectPiece(0);
  for (int64_t done = 0; done < count; done += piece) {
    if (done + piece < count)
      expectPiece(done + piece);
    size_t which = size_t(done / piece % 2);
    HEDDLE_RT_RETURN_IF_ERROR(waitForAll(receives[which]));
    for (size_t i = 0; i < group.remote.size(); ++i)
      ins[size_t(group.remote[i])] =
          staging.data() + int64_t(which) * set + int64_t(i) * piece * width;
    for (int32_t i = 0; i < group.size(); ++i)
      if (group.local[size_t(i)] >= 0)
        ins[size_t(i)] = inOf(group, i) + (first + done) * width;
    void *sum = static_cast<char *>(to) + done * width;
    pool.forRanges(
        std::min(piece, count - done), grainBytes / width,
        [&](int64_t from, int64_t until) {
          reduceInto(reduction, type, ins, from, {&sum, 1}, from, until - from);
        });
  }
  return Status::success();
}

/// Sums small inputs whole, on every member.
Status ProcessCommunicator::reduceWhole(Group &group, Reduction reduction,
                                        DType type, const void *in, void *out,
                                        int64_t count) {
  auto bytes = count * int64_t(byteSize(type));
  auto members = int64_t(group.size());
  staging.resize(std::max(staging.size(), size_t((members + 1) * bytes)));
  Messages receives, sends;
  for (int32_t other : group.remote) {
    expect(group, receives, other, staging.data() + other * bytes, bytes);
    post(group, sends, other, in, bytes);
  }
  HEDDLE_RT_RETURN_IF_ERROR(waitForAll(receives));
  std::vector<const void *> ins(size_t(group.size()));
  for (int32_t i = 0; i < group.size(); ++i)
    ins[size_t(i)] = group.local[size_t(i)] >= 0 ? inOf(group, i)
                                                 : staging.data() + i * bytes;
  void *sum = staging.data() + members * bytes;
  reduceInto(reduction, type, ins, 0, {&sum, 1}, 0, count);
  // The output may be the input that others still read.
  HEDDLE_RT_RETURN_IF_ERROR(end(group, sends));
  std::memcpy(out, sum, size_t(bytes));
  return Status::success();
}

Status ProcessCommunicator::allReduce(int32_t index, Reduction reduction,
                                      DType type, const void *in, void *out,
                                      int64_t count) {
  Expected<Group *> found = find(index);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkReducible(type));
  Group &group = **found;
  auto width = int64_t(byteSize(type));
  if (group.size() == 1) {
    copy(in, out, count * width);
    return Status::success();
  }
  HEDDLE_RT_RETURN_IF_ERROR(
      begin(group, Kind::AllReduce,
            {int64_t(Kind::AllReduce), type, count, reduction}, in, out));
  if (count * width <= smallBytes)
    return reduceWhole(group, reduction, type, in, out, count);
  Slices slices;
  int64_t slice = (count + group.size() - 1) / group.size();
  slice = (slice + 63) / 64 * 64;
  for (int64_t i = 0; i < group.size(); ++i) {
    slices.begin.push_back(std::min(count, i * slice));
    slices.count.push_back(std::min(count, (i + 1) * slice) -
                           slices.begin.back());
  }
  auto at = [&](void *buffer, int32_t member) {
    return static_cast<char *>(buffer) + slices.begin[size_t(member)] * width;
  };
  char *mine = at(out, group.member);
  Messages messages;
  HEDDLE_RT_RETURN_IF_ERROR(
      reduceSlice(group, reduction, type, in, slices, mine, messages));
  // A member's sum arrives only after it has received all inputs of its slice.
  // So in place, too, it overwrites an input that has been sent.
  Messages receives;
  for (int32_t other : group.remote) {
    expect(group, receives, other, at(out, other),
           slices.count[size_t(other)] * width);
    post(group, messages, other, mine,
         slices.count[size_t(group.member)] * width);
  }
  // Members of this process read each other's inputs up to here.
  HEDDLE_RT_RETURN_IF_ERROR(
      group.place->leave(group.local[size_t(group.member)]));
  for (int32_t i = 0; i < group.size(); ++i)
    if (group.local[size_t(i)] >= 0 && i != group.member)
      copy(at(outOf(group, i), i), at(out, i), slices.count[size_t(i)] * width);
  HEDDLE_RT_RETURN_IF_ERROR(waitForAll(receives));
  return end(group, messages);
}

Status ProcessCommunicator::reduceScatter(int32_t index, Reduction reduction,
                                          DType type, const void *in, void *out,
                                          int64_t count) {
  Expected<Group *> found = find(index);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkReducible(type));
  HEDDLE_RT_RETURN_IF_ERROR(checkSeparate("reduce_scatter", in, out));
  Group &group = **found;
  HEDDLE_RT_RETURN_IF_ERROR(
      begin(group, Kind::ReduceScatter,
            {int64_t(Kind::ReduceScatter), type, count, reduction}, in, out));
  Slices slices;
  for (int64_t i = 0; i < group.size(); ++i) {
    slices.begin.push_back(i * count);
    slices.count.push_back(count);
  }
  Messages messages;
  HEDDLE_RT_RETURN_IF_ERROR(
      reduceSlice(group, reduction, type, in, slices, out, messages));
  return end(group, messages);
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

Status ProcessCommunicator::allGather(int32_t index, DType type, const void *in,
                                      void *out, int64_t count) {
  Expected<Group *> found = find(index);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkSeparate("all_gather", in, out));
  Group &group = **found;
  HEDDLE_RT_RETURN_IF_ERROR(begin(group, Kind::AllGather,
                                  {int64_t(Kind::AllGather), type, count, 0},
                                  in, out));
  int64_t bytes = count * int64_t(byteSize(type));
  auto block = [&](int32_t member) {
    return static_cast<char *>(out) + member * bytes;
  };
  Messages messages;
  for (int32_t other : group.remote) {
    expect(group, messages, other, block(other), bytes);
    post(group, messages, other, in, bytes);
  }
  for (int32_t i = 0; i < group.size(); ++i)
    if (group.local[size_t(i)] >= 0)
      copy(inOf(group, i), block(i), bytes);
  return end(group, messages);
}

Status ProcessCommunicator::allToAll(int32_t index, DType type, const void *in,
                                     void *out, int64_t count) {
  Expected<Group *> found = find(index);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkSeparate("all_to_all", in, out));
  Group &group = **found;
  HEDDLE_RT_RETURN_IF_ERROR(begin(group, Kind::AllToAll,
                                  {int64_t(Kind::AllToAll), type, count, 0}, in,
                                  out));
  int64_t bytes = count * int64_t(byteSize(type));
  auto block = [&](int32_t member) {
    return static_cast<char *>(out) + member * bytes;
  };
  Messages messages;
  for (int32_t other : group.remote) {
    expect(group, messages, other, block(other), bytes);
    post(group, messages, other, static_cast<const char *>(in) + other * bytes,
         bytes);
  }
  for (int32_t i = 0; i < group.size(); ++i)
    if (group.local[size_t(i)] >= 0)
      copy(inOf(group, i) + group.member * bytes, block(i), bytes);
  return end(group, messages);
}

Status ProcessCommunicator::broadcast(int32_t index, int32_t root, DType type,
                                      const void *in, void *out,
                                      int64_t count) {
  Expected<Group *> found = find(index);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  Group &group = **found;
  HEDDLE_RT_RETURN_IF_ERROR(checkRoot(group.size(), root));
  HEDDLE_RT_RETURN_IF_ERROR(begin(group, Kind::Broadcast,
                                  {int64_t(Kind::Broadcast), type, count, root},
                                  in, out));
  int64_t bytes = count * int64_t(byteSize(type));
  Messages messages;
  if (group.member == root)
    for (int32_t other : group.remote)
      post(group, messages, other, in, bytes);
  if (group.local[size_t(root)] >= 0)
    copy(inOf(group, root), out, bytes);
  else
    expect(group, messages, root, out, bytes);
  return end(group, messages);
}

Status ProcessCommunicator::permute(int32_t index, const int32_t *sources,
                                    DType type, const void *in, void *out,
                                    int64_t count) {
  Expected<Group *> found = find(index);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkSeparate("permute", in, out));
  Group &group = **found;
  int32_t source = sources[group.member];
  HEDDLE_RT_RETURN_IF_ERROR(checkSource(group.size(), source));
  HEDDLE_RT_RETURN_IF_ERROR(begin(
      group, Kind::Permute, {int64_t(Kind::Permute), type, count, 0}, in, out));
  int64_t bytes = count * int64_t(byteSize(type));
  Messages messages;
  for (int32_t other : group.remote)
    if (sources[other] == group.member)
      post(group, messages, other, in, bytes);
  if (source < 0)
    std::memset(out, 0, size_t(bytes));
  else if (group.local[size_t(source)] >= 0)
    copy(inOf(group, source), out, bytes);
  else
    expect(group, messages, source, out, bytes);
  return end(group, messages);
}

//===----------------------------------------------------------------------===//
// Transfers. A header precedes the data.
//===----------------------------------------------------------------------===//

Status ProcessCommunicator::send(int32_t index, int32_t peer, DType type,
                                 const void *from, int64_t count) {
  Expected<Group *> found = find(index);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  Group &group = **found;
  HEDDLE_RT_RETURN_IF_ERROR(checkPeer(group.size(), group.member, peer));
  if (int32_t local = group.local[size_t(peer)]; local >= 0)
    return group.place->send(group.local[size_t(group.member)], local, type,
                             from, count);
  if (shared->failure.isSet())
    return shared->failure.get();
  Header header{int64_t(Kind::Send), type, count, 0};
  int32_t process = group.processes[size_t(peer)];
  uint64_t slot = group.slot(SlotPurpose::Transfer, group.member, peer);
  transport.sendCopy(process, slot, &header, sizeof header);
  if (count > 0)
    transport.sendCopy(process, slot, from, size_t(count) * byteSize(type));
  return Status::success();
}

Status ProcessCommunicator::recv(int32_t index, int32_t peer, DType type,
                                 void *to, int64_t count) {
  Expected<Group *> found = find(index);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  Group &group = **found;
  HEDDLE_RT_RETURN_IF_ERROR(checkPeer(group.size(), group.member, peer));
  if (int32_t local = group.local[size_t(peer)]; local >= 0)
    return group.place->recv(group.local[size_t(group.member)], local, type, to,
                             count);
  if (shared->failure.isSet())
    return shared->failure.get();
  int32_t process = group.processes[size_t(peer)];
  uint64_t slot = group.slot(SlotPurpose::Transfer, peer, group.member);
  int32_t self = group.ranks[size_t(group.member)];
  int32_t sender = group.ranks[size_t(peer)];
  Header header;
  auto message = transport.receive(process, slot, &header, sizeof header);
  switch (message->wait(Clock::now() + group.options.timeout)) {
  case Transport::Message::End::Done:
    break;
  case Transport::Message::End::Late:
    shared->failure.set(didNotSend(sender, self, group.options));
    return shared->failure.get();
  case Transport::Message::End::Failed:
    return shared->failureOfConnection();
  }
  Status matches =
      checkMessage(self, type, count, sender, DType(header.type), header.count);
  if (!matches.ok()) {
    shared->failure.set(matches);
    return shared->failure.get();
  }
  if (count == 0)
    return Status::success();
  Messages data;
  data.push_back(
      transport.receive(process, slot, to, size_t(count) * byteSize(type)));
  return waitForAll(data);
}

} // namespace

Expected<std::vector<std::vector<std::unique_ptr<Communicator>>>>
makeProcessCommunicators(const std::vector<MeshAxis> &mesh,
                         const std::vector<GroupInfo> &groups,
                         const std::vector<std::vector<ThreadPool *>> &pools,
                         const std::shared_ptr<Job> &job,
                         const ThreadCommunicatorOptions &options) {
  auto ranks = int32_t(pools.size());
  int64_t all = int64_t(ranks) * job->processes();
  size_t streams = pools.empty() ? 0 : pools.front().size();
  if (groups.size() >= 1u << 12 || streams >= 1u << 6 || all >= 1 << 22)
    return errorOf("expected less than 4096 groups, 64 streams and 4194304 "
                   "ranks to communicate between processes, got ",
                   groups.size(), ", ", streams, " and ", all);
  auto shared = std::make_shared<Shared>(job);
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators;
  for (int32_t i = 0; i < ranks; ++i) {
    int32_t rank = job->process() * ranks + i;
    auto &ofRank = communicators.emplace_back();
    for (size_t stream = 0; stream < streams; ++stream) {
      auto communicator = std::make_unique<ProcessCommunicator>(
          shared, *pools[size_t(i)][stream]);
      for (size_t index = 0; index < groups.size(); ++index) {
        GroupView view = groupOf(mesh, groups[index], rank);
        Group group;
        group.index = int32_t(index);
        group.stream = int32_t(stream);
        group.member = view.member;
        group.options = options;
        group.ranks = view.ranks;
        std::vector<int32_t> here;
        for (size_t member = 0; member < view.ranks.size(); ++member) {
          int32_t process = view.ranks[member] / ranks;
          group.processes.push_back(process);
          bool isLocal = process == job->process();
          group.local.push_back(isLocal ? int32_t(here.size()) : -1);
          if (isLocal)
            here.push_back(view.ranks[member]);
          else
            group.remote.push_back(int32_t(member));
        }
        if (view.member >= 0) {
          auto &place =
              shared->places[{group.index, group.stream, view.ranks.front()}];
          if (!place)
            place =
                std::make_unique<Rendezvous>(here, shared->failure, options);
          group.place = place.get();
        }
        communicator->join(std::move(group));
      }
      ofRank.push_back(std::move(communicator));
    }
  }
  shared->watch();
  return communicators;
}

} // namespace heddle::runtime
