//===- Meetings.h - Where the hosts of ranks on a GPU meet ------*- C++ -*-===//
//
// Ranks on one GPU order their streams by events. A stream can only wait for an
// event that was recorded before, so the threads that issue a collective meet
// first: each announces its buffers and its event, and gets those of all.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_MEETINGS_H
#define HEDDLE_RT_BACKENDS_CUDA_MEETINGS_H

#include "backends/cuda/Driver.h"
#include "communicators/Collective.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace heddle::runtime::cuda {

/// What a member of a group announces.
struct Offer {
  Collective call{};
  Event event = nullptr; ///< its stream has passed what peers wait for
};
using Offers = std::vector<Offer>; ///< by member

/// The meeting points of the ranks of a session. Any thread may call it.
class Meetings {
public:
  explicit Meetings(std::chrono::milliseconds timeout) : timeout(timeout) {}

  /// A group of ranks, in the members' order, on the streams of one number.
  struct Place {
    int32_t group;
    std::vector<int32_t> ranks;
    int32_t stream;
    auto operator<=>(const Place &) const = default;
  };

  /// Waits until all members have offered, and returns the offers. Errors: a
  /// member does not come in time or calls something else, or a rank has
  /// failed. The first error is that of all ranks.
  Expected<std::shared_ptr<const Offers>>
  meet(const Place &place, int32_t member, const Offer &offer);

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
  std::mutex mutex; ///< of all that follows
  std::condition_variable changed;
  Status failure;
  std::map<Place, Point> points;
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_MEETINGS_H
