//===- Meetings.h - Where the hosts of ranks on a GPU meet ------*- C++ -*-===//
//
// Ranks on one GPU order their streams by events. A stream can only wait for an
// event that was recorded before, so the threads that issue a collective meet
// first: each announces its buffers and its event, and gets those of all. The
// thread that issues a receive waits until its message was sent; a send waits
// for nobody.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_MEETINGS_H
#define HEDDLE_RT_BACKENDS_CUDA_MEETINGS_H

#include "backends/cuda/driver/Driver.h"
#include "communicators/Collective.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace heddle::runtime::cuda {

/// What a member of a group announces.
struct Offer {
  Collective call{};
  Event event = nullptr; ///< recorded after the work that peers wait for
};
using Offers = std::vector<Offer>; ///< by member

/// A copy, in the GPU's memory, of what one rank sends to another.
struct Message {
  Address copy = 0;
  size_t bytes = 0;
  DType type = HEDDLE_RT_I8;
  int64_t count = 0;
  Event sent = nullptr; ///< the copy is complete
  Event read = nullptr; ///< the receiver has read it
};

/// The meeting points of the ranks of a session. Any thread may call it.
class Meetings {
public:
  explicit Meetings(std::chrono::milliseconds timeout) : timeout(timeout) {}

  /// A group of ranks, in the members' order, on their streams of the same
  /// number.
  struct Place {
    int32_t group;
    std::vector<int32_t> ranks;
    int32_t stream;
    auto operator<=>(const Place &) const = default;
  };

  /// Waits until all members have offered, and returns the offers. Errors: a
  /// member does not come in time or calls something else, or a rank has
  /// failed. All ranks return the first error.
  Expected<std::shared_ptr<const Offers>>
  meet(const Place &place, int32_t member, const Offer &offer);

  /// The messages from one rank to another on their streams of the same number.
  /// They arrive in the order in which they were sent.
  struct Channel {
    int32_t group, from, to, stream;
    auto operator<=>(const Channel &) const = default;
  };
  /// Announces a message whose event `sent` was recorded. The sender owns it.
  Status send(const Channel &channel, Message &message);
  /// Waits for the next message. Errors: none is sent in time, it is not what
  /// is expected, or a rank has failed.
  Expected<Message *> receive(const Channel &channel, DType type,
                              int64_t count);
  /// Lets the sender use a message again, after its event `read`.
  void giveBack(const Channel &channel, Message &message);
  /// Returns a message of so many bytes that was given back; null: there is
  /// none.
  Message *findUnused(const Channel &channel, size_t bytes);

  /// Makes all waiting members, and all later ones, return `why`.
  void abort(const Status &why);

private:
  struct Point {
    Offers offers;
    std::vector<bool> has; ///< by member
    size_t arrived = 0;
    uint64_t generation = 0;
    std::shared_ptr<const Offers> complete; ///< of the last generation
  };

  const std::chrono::milliseconds timeout;
  std::mutex mutex; ///< guards the members below
  std::condition_variable changed;
  Status failure;
  std::map<Place, Point> points;
  struct Queue {
    std::deque<Message *> sent;
    std::vector<Message *> unused;
  };
  std::map<Channel, Queue> queues;
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_MEETINGS_H
