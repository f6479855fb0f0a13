//===- Rendezvous.h - Meeting point of a group's threads --------*- C++ -*-===//

#ifndef HEDDLE_RT_COMMUNICATORS_RENDEZVOUS_H
#define HEDDLE_RT_COMMUNICATORS_RENDEZVOUS_H

#include "communicators/ThreadCommunicator.h"
#include "heddle_rt/status.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace heddle::runtime {

/// The first error of a session. Waiting members check it.
class Failure {
public:
  /// Records `why` unless an error is already recorded.
  void set(const Status &why);
  bool isSet() const { return flag.load(std::memory_order_acquire); }
  Status get() const;

private:
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

/// Meeting point of a group's members. `enter` and `leave` alternate; between
/// them the members may use the buffers of each other's offers.
class Rendezvous {
public:
  Rendezvous(std::vector<int32_t> ranks, Failure &failure,
             const ThreadCommunicatorOptions &options);

  Status enter(int32_t member, const Offer &offer);
  Status leave(int32_t member);
  const Offer &offer(int32_t member) const { return places[member].offer; }
  int32_t size() const { return int32_t(ranks.size()); }

  /// Wakes the waiting members so that they see the failure.
  void interrupt();

  /// Blocks until `peer` has called recv and copied `count` elements. Each
  /// member has at most one message to each other member under way.
  Status send(int32_t member, int32_t peer, DType type, const void *from,
              int64_t count);
  Status recv(int32_t member, int32_t peer, DType type, void *to,
              int64_t count);

private:
  struct alignas(64) Place {
    Offer offer;
    uint64_t arrivals = 0; ///< guarded by `mutex`
  };
  /// A message from one member to another.
  struct Channel {
    const void *from = nullptr;
    int64_t type = 0, count = 0;
    bool posted = false;
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

#endif // HEDDLE_RT_COMMUNICATORS_RENDEZVOUS_H
