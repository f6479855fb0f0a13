//===- Meetings.cpp - Where the hosts of ranks on a GPU meet --------------===//

#include "backends/cuda/Meetings.h"
#include "communicators/Errors.h"

#include <algorithm>

namespace heddle::runtime::cuda {

/// Returns an error unless all members call the same collective.
static Status checkAgreement(const std::vector<int32_t> &ranks,
                             const Offers &offers) {
  auto callOf = [&](size_t i) {
    const Collective &call = offers[i].call;
    return MemberCall{ranks[i], name(call.kind), call.type, call.count,
                      call.detail()};
  };
  for (size_t i = 1; i < ranks.size(); ++i)
    HEDDLE_RT_RETURN_IF_ERROR(runtime::checkAgreement(callOf(0), callOf(i)));
  return Status::success();
}

Expected<std::shared_ptr<const Offers>>
Meetings::meet(const Place &place, int32_t member, const Offer &offer) {
  std::unique_lock lock(mutex);
  if (!failure.ok())
    return failure;
  Point &point = points[place];
  point.offers.resize(place.ranks.size());
  point.has.resize(place.ranks.size());
  point.offers[size_t(member)] = offer;
  point.has[size_t(member)] = true;
  uint64_t own = point.generation;
  if (++point.arrived == place.ranks.size()) {
    failure = checkAgreement(place.ranks, point.offers);
    point.complete = std::make_shared<const Offers>(point.offers);
    point.has.assign(place.ranks.size(), false);
    point.arrived = 0;
    ++point.generation;
    changed.notify_all();
  } else if (!changed.wait_for(lock, timeout, [&] {
               return point.generation != own || !failure.ok();
             })) {
    std::string missing;
    for (size_t i = 0; i < place.ranks.size(); ++i)
      if (!point.has[i])
        missing += concat(missing.empty() ? "" : ", ", place.ranks[i]);
    failure = didNotArrive(missing, name(offer.call.kind), timeout);
    changed.notify_all();
  }
  if (!failure.ok())
    return failure;
  return point.complete;
}

Status Meetings::send(const Channel &channel, Message &message) {
  std::lock_guard lock(mutex);
  if (!failure.ok())
    return failure;
  queues[channel].sent.push_back(&message);
  changed.notify_all();
  return Status::success();
}

Expected<Message *> Meetings::receive(const Channel &channel, DType type,
                                      int64_t count) {
  std::unique_lock lock(mutex);
  Queue &queue = queues[channel];
  bool isInTime = changed.wait_for(
      lock, timeout, [&] { return !queue.sent.empty() || !failure.ok(); });
  if (failure.ok() && !isInTime)
    failure = didNotSend(channel.from, channel.to, timeout);
  if (failure.ok())
    failure = checkMessage(channel.to, type, count, channel.from,
                           queue.sent.front()->type, queue.sent.front()->count);
  if (!failure.ok()) {
    changed.notify_all();
    return failure;
  }
  Message *message = queue.sent.front();
  queue.sent.pop_front();
  return message;
}

void Meetings::giveBack(const Channel &channel, Message &message) {
  std::lock_guard lock(mutex);
  queues[channel].unused.push_back(&message);
}

Message *Meetings::findUnused(const Channel &channel, size_t bytes) {
  std::lock_guard lock(mutex);
  std::vector<Message *> &unused = queues[channel].unused;
  auto found = std::ranges::find(unused, bytes, &Message::bytes);
  if (found == unused.end())
    return nullptr;
  Message *message = *found;
  unused.erase(found);
  return message;
}

void Meetings::abort(const Status &why) {
  std::lock_guard lock(mutex);
  if (failure.ok())
    failure = why;
  changed.notify_all();
}

} // namespace heddle::runtime::cuda
