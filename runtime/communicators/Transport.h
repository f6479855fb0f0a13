//===- Transport.h - Messages between processes -----------------*- C++ -*-===//

#ifndef HEDDLE_RT_COMMUNICATORS_TRANSPORT_H
#define HEDDLE_RT_COMMUNICATORS_TRANSPORT_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace heddle::runtime {

/// Moves bytes between the processes of a job, while they do something else.
/// Messages from one process to another that have the same slot arrive in
/// order. A receive must name exactly as many bytes as the send. Any thread may
/// call it.
class Transport {
public:
  using Clock = std::chrono::steady_clock;
  virtual ~Transport();

  /// A message on its way. A message may be destroyed before its transfer has
  /// ended. After the destruction nothing touches its memory.
  class Message {
  public:
    virtual ~Message();
    enum class End { Done, Late, Failed };
    /// Waits until the transfer is done: the memory has been sent, or holds the
    /// received bytes. Late: the transfer is not done by `deadline`. Failed: a
    /// connection is broken, or `interrupt` was called.
    virtual End wait(Clock::time_point deadline) = 0;
  };

  virtual std::unique_ptr<Message> send(int32_t process, uint64_t slot,
                                        const void *data, size_t bytes) = 0;
  virtual std::unique_ptr<Message> receive(int32_t process, uint64_t slot,
                                           void *data, size_t bytes) = 0;
  /// Sends a copy and waits for nobody. Holds the copy until it has been sent.
  virtual void sendCopy(int32_t process, uint64_t slot, const void *data,
                        size_t bytes) = 0;

  /// Ends all waits, now and later.
  virtual void interrupt() = 0;
};

/// What a slot is for. The other bits tell messages of one purpose apart.
enum class SlotPurpose : uint64_t { Job, Header, Data, Transfer };

/// Returns the slot of messages between two ranks of a group on a stream.
/// Groups are below 2^12, streams below 2^6 and ranks below 2^22.
constexpr uint64_t slotOf(SlotPurpose purpose, int64_t group, int64_t stream,
                          int64_t from, int64_t to) {
  return uint64_t(purpose) << 62 | uint64_t(group) << 50 |
         uint64_t(stream) << 44 | uint64_t(from) << 22 | uint64_t(to);
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_TRANSPORT_H
