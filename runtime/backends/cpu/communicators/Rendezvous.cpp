//===- Rendezvous.cpp - Meeting point of a group's threads ----------------===//

#include "backends/cpu/communicators/Rendezvous.h"
#include "communicators/Errors.h"

#include <cstring>

namespace heddle::runtime {

void Failure::set(const Status &why) {
  if (!isSet())
    record(agree ? agree(why) : why);
}

void Failure::record(const Status &why) {
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
  failure.set(didNotArrive(names, operation, options.timeout));
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
  auto callOf = [&](size_t i) {
    const Offer &offer = places[i].offer;
    return MemberCall{ranks[i], offer.operation, offer.type, offer.count,
                      offer.detail};
  };
  for (size_t i = 1; i < places.size(); ++i)
    HEDDLE_RT_RETURN_IF_ERROR(checkAgreement(callOf(0), callOf(i)));
  return Status::success();
}

Status Rendezvous::enterUnchecked(int32_t member, const Offer &offer) {
  // Other members read this offer only after all members have met.
  places[member].offer = offer;
  return meet(member, offer.operation);
}

Status Rendezvous::enter(int32_t member, const Offer &offer) {
  HEDDLE_RT_RETURN_IF_ERROR(enterUnchecked(member, offer));
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
  std::unique_ptr<Message> message;
  {
    std::lock_guard lock(mutex);
    if (failure.isSet())
      return failure.get();
    if (channel.unused) {
      message = std::move(channel.unused);
      channel.unused = std::move(message->next);
    }
  }
  if (!message)
    message = std::make_unique<Message>();
  size_t bytes = size_t(count) * byteSize(type);
  if (message->bytes.size() < bytes)
    message->bytes.resize(bytes);
  std::memcpy(message->bytes.data(), from, bytes);
  message->type = type;
  message->count = count;
  {
    std::lock_guard lock(mutex);
    Message *last = message.get();
    (channel.last ? channel.last->next : channel.first) = std::move(message);
    channel.last = last;
  }
  changed.notify_all();
  return Status::success();
}

Status Rendezvous::recv(int32_t member, int32_t peer, DType type, void *to,
                        int64_t count) {
  Channel &channel = channels[peer * size() + member];
  std::unique_lock lock(mutex);
  if (!waitFor(lock, [&] { return channel.first != nullptr; })) {
    failure.set(didNotSend(ranks[peer], ranks[member], options.timeout));
    return failure.get();
  }
  if (failure.isSet())
    return failure.get();
  std::unique_ptr<Message> message = std::move(channel.first);
  channel.first = std::move(message->next);
  if (!channel.first)
    channel.last = nullptr;
  Status matches = checkMessage(ranks[member], type, count, ranks[peer],
                                message->type, message->count);
  if (!matches.ok()) {
    failure.set(matches);
    return failure.get();
  }
  lock.unlock();
  std::memcpy(to, message->bytes.data(), size_t(count) * byteSize(type));
  lock.lock();
  message->next = std::move(channel.unused);
  channel.unused = std::move(message);
  return Status::success();
}

} // namespace heddle::runtime
