//===- Rendezvous.cpp - Meeting point of a group's threads ----------------===//

#include "communicators/Rendezvous.h"
#include "support/Message.h"

#include <cstring>

namespace heddle::runtime {

void Failure::set(const Status &why) {
  std::lock_guard lock(mutex);
  if (flag.load(std::memory_order_relaxed))
    return;
  status = why;
  flag.store(true, std::memory_order_release);
}

Status Failure::get() const {
  std::lock_guard lock(mutex);
  return status;
}

Rendezvous::Rendezvous(std::vector<int32_t> ranks, Failure &failure,
                       const ThreadCommunicatorOptions &options)
    : ranks(std::move(ranks)), failure(failure), options(options),
      places(this->ranks.size()),
      channels(this->ranks.size() * this->ranks.size()) {}

void Rendezvous::interrupt() {
  // Without the lock, the notification could come between a waiting thread's
  // check and its sleep, and be lost.
  { std::lock_guard lock(mutex); }
  changed.notify_all();
}

/// Waits for `condition` or a failure; returns false on timeout. The caller
/// checks which of the two ended the wait.
template <typename Condition>
bool Rendezvous::waitFor(std::unique_lock<std::mutex> &lock,
                         Condition &&condition) {
  return changed.wait_for(lock, options.timeout,
                          [&] { return failure.isSet() || condition(); });
}

/// Returns the error of a timeout. It names the members that have arrived fewer
/// than `arrivals` times. Called with the lock held.
Status Rendezvous::missing(std::string_view operation, uint64_t arrivals) {
  std::string names;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (places[i].arrivals < arrivals)
      names += concat(names.empty() ? "" : ", ", ranks[i]);
  Status status = errorOf("device ", names, " did not arrive at ", operation,
                          " within ", double(options.timeout.count()) / 1000,
                          " s: it is hung or dead, or runs another program");
  failure.set(status);
  return failure.get();
}

Status Rendezvous::meet(int32_t member, std::string_view operation) {
  uint64_t mine;
  {
    std::lock_guard lock(mutex);
    if (failure.isSet())
      return failure.get();
    ++places[member].arrivals;
    mine = generation.load(std::memory_order_relaxed);
    if (++arrived == size()) {
      arrived = 0;
      generation.store(mine + 1, std::memory_order_release);
    }
  }
  auto complete = [&] {
    return generation.load(std::memory_order_acquire) != mine;
  };
  if (complete()) {
    changed.notify_all();
    return Status::success();
  }
  if (options.spin)
    for (int spin = 0; spin < 1000; ++spin) {
      if (complete())
        return Status::success();
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  std::unique_lock lock(mutex);
  if (!waitFor(lock, complete))
    return missing(operation, places[member].arrivals);
  if (complete())
    return Status::success();
  return failure.get();
}

/// Returns an error unless all members call the same collective.
Status Rendezvous::agreement() const {
  const Offer &first = places[0].offer;
  for (size_t i = 1; i < places.size(); ++i) {
    const Offer &other = places[i].offer;
    if (other.operation == first.operation && other.type == first.type &&
        other.count == first.count && other.detail == first.detail)
      continue;
    return errorOf("devices disagree on a collective: device ", ranks[0],
                   " calls ", first.operation, " of ", first.count, " ",
                   name(DType(first.type)), ", device ", ranks[i], " calls ",
                   other.operation, " of ", other.count, " ",
                   name(DType(other.type)),
                   other.detail == first.detail ? "" : " in another shape");
  }
  return Status::success();
}

Status Rendezvous::enter(int32_t member, const Offer &offer) {
  // Other members read this offer only after all members have met.
  places[member].offer = offer;
  HEDDLE_RT_RETURN_IF_ERROR(meet(member, offer.operation));
  Status agreed = agreement();
  if (!agreed.ok())
    failure.set(agreed);
  return agreed;
}

Status Rendezvous::leave(int32_t member) {
  return meet(member, places[member].offer.operation);
}

Status Rendezvous::send(int32_t member, int32_t peer, DType type,
                        const void *from, int64_t count) {
  Channel &channel = channels[member * size() + peer];
  std::unique_lock lock(mutex);
  if (failure.isSet())
    return failure.get();
  channel = {from, type, count, true};
  changed.notify_all();
  if (!waitFor(lock, [&] { return !channel.posted; })) {
    failure.set(errorOf("device ", ranks[peer], " did not receive what device ",
                        ranks[member], " sends within ",
                        double(options.timeout.count()) / 1000, " s"));
    return failure.get();
  }
  return channel.posted ? failure.get() : Status::success();
}

Status Rendezvous::recv(int32_t member, int32_t peer, DType type, void *to,
                        int64_t count) {
  Channel &channel = channels[peer * size() + member];
  std::unique_lock lock(mutex);
  if (!waitFor(lock, [&] { return channel.posted; })) {
    failure.set(errorOf("device ", ranks[peer], " did not send to device ",
                        ranks[member], " within ",
                        double(options.timeout.count()) / 1000, " s"));
    return failure.get();
  }
  if (failure.isSet())
    return failure.get();
  if (channel.type != type || channel.count != count) {
    failure.set(errorOf("device ", ranks[member], " expects ", count, " ",
                        name(type), " from device ", ranks[peer],
                        ", which sends ", channel.count, " ",
                        name(DType(channel.type))));
    return failure.get();
  }
  const void *from = channel.from;
  lock.unlock();
  std::memcpy(to, from, size_t(count) * byteSize(type));
  lock.lock();
  channel.posted = false;
  lock.unlock();
  changed.notify_all();
  return Status::success();
}

} // namespace heddle::runtime
