//===- Meetings.cpp - Where the hosts of ranks on a GPU meet --------------===//

#include "backends/cuda/Meetings.h"
#include "support/Message.h"

namespace heddle::runtime::cuda {

Expected<std::shared_ptr<const Offers>>
Meetings::meet(const Place &place, int32_t member, const Offer &offer) {
  std::unique_lock lock(mutex);
  Point &point = points[place];
  point.offers.resize(place.ranks.size());
  point.offers[size_t(member)] = offer;
  if (++point.arrived == place.ranks.size()) {
    point.complete = std::make_shared<const Offers>(point.offers);
    point.arrived = 0;
    ++point.generation;
    changed.notify_all();
    if (!failure.ok())
      return failure;
    return point.complete;
  }
  uint64_t own = point.generation;
  bool met = changed.wait_for(
      lock, timeout, [&] { return point.generation != own || !failure.ok(); });
  if (!failure.ok())
    return failure;
  if (!met)
    return errorOf(name(offer.call.kind), ": ", point.arrived, " of ",
                   place.ranks.size(), " ranks of group ", place.group,
                   " came within ", timeout.count() / 1000, " s");
  return point.complete;
}

void Meetings::abort(const Status &why) {
  std::lock_guard lock(mutex);
  if (failure.ok())
    failure = why;
  changed.notify_all();
}

} // namespace heddle::runtime::cuda
