//===- Meetings.cpp - Where the hosts of ranks on a GPU meet --------------===//

#include "backends/cuda/Meetings.h"
#include "communicators/Errors.h"

namespace heddle::runtime::cuda {

/// Returns an error unless all members call the same.
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

void Meetings::abort(const Status &why) {
  std::lock_guard lock(mutex);
  if (failure.ok())
    failure = why;
  changed.notify_all();
}

} // namespace heddle::runtime::cuda
