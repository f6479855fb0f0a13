//===- Rendezvous.h - Meeting point of a group's threads --------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_RENDEZVOUS_H
#define HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_RENDEZVOUS_H

#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "communicators/Collective.h"
#include "heddle_rt/status.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace heddle::runtime {

/// The first error of a session. Waiting members check it.
class Failure {
public:
  Failure() = default;
  /// `agree` gets a failure of this process and returns the one that counts,
  /// perhaps that of another process.
  explicit Failure(std::function<Status(const Status &)> agree)
      : agree(std::move(agree)) {}

  /// Records `why`, or what `agree` makes of it, unless an error is already
  /// recorded.
  void set(const Status &why);
  /// Records `why` likewise, without asking `agree`.
  void record(const Status &why);
  bool isSet() const { return flag.load(std::memory_order_acquire); }
  Status get() const;

private:
  const std::function<Status(const Status &)> agree;
  mutable std::mutex mutex;
  Status status;
  std::atomic<bool> flag{false};
};

/// One member's arguments of a collective. All members must agree on every
/// field except the buffers `in` and `out`.
struct Offer {
  std::string_view operation; ///< a string literal
  int64_t type = 0, count = 0, detail = 0;
  const void *in = nullptr;
  void *out = nullptr;
};

inline Offer offerOf(const Collective &call) {
  return {name(call.kind), call.type, call.count,
          call.detail(),   call.in,   call.out};
}

/// Meeting point of a group's members. `enter` and `leave` alternate; between
/// them the members may use the buffers of each other's offers.
class Rendezvous {
public:
  Rendezvous(std::vector<int32_t> ranks, Failure &failure,
             const ThreadCommunicatorOptions &options);

  Status enter(int32_t member, const Offer &offer);
  /// Enters likewise, but does not compare the offers.
  Status enterUnchecked(int32_t member, const Offer &offer);
  Status leave(int32_t member);
  const Offer &offer(int32_t member) const { return places[member].offer; }
  int32_t size() const { return int32_t(ranks.size()); }

  /// Wakes the waiting members so that they see the failure.
  void interrupt();

  /// Copies `count` elements into a message for `peer`. Waits for nobody, so
  /// members may first send to each other and then receive. A member reuses the
  /// messages that its peers have received. So it holds as many messages as
  /// were ever under way at once.
  Status send(int32_t member, int32_t peer, DType type, const void *from,
              int64_t count);
  /// Waits for the next message from `peer`.
  Status recv(int32_t member, int32_t peer, DType type, void *to,
              int64_t count);

private:
  struct alignas(64) Place {
    Offer offer;
    uint64_t arrivals = 0; ///< guarded by `mutex`
  };
  /// A message from one member to another.
  struct Message {
    std::vector<std::byte> bytes;
    DType type = HEDDLE_RT_F32;
    int64_t count = 0;
    std::unique_ptr<Message> next;
  };
  /// The messages from one member to another, the oldest first.
  struct Channel {
    std::unique_ptr<Message> first, unused;
    Message *last = nullptr; ///< null if `first` is
  };
  Status meet(int32_t member, std::string_view operation);
  Status missing(std::string_view operation, uint64_t arrivals);
  template <typename Condition>
  bool waitFor(std::unique_lock<std::mutex> &lock, Condition &&condition);
  Status agreement() const;

  std::vector<int32_t> ranks;
  Failure &failure;
  ThreadCommunicatorOptions options;
  std::vector<Place> places;
  std::vector<Channel> channels; ///< [from * size + to], guarded by `mutex`
  std::mutex mutex;
  std::condition_variable changed;
  int32_t arrived = 0; ///< guarded by `mutex`
  std::atomic<uint64_t> generation{0};
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_RENDEZVOUS_H
