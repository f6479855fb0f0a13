//===- Links.h - What collectives send over which links ---------*- C++ -*-===//
//
// The links of a network, and the traffic of a collective on them. Rank k is
// device k of the network. The algorithms and their times are those of the
// compiler's cost model (include/heddle/Cost/CollectiveCost.h): rings in the
// order of the ranks. A collective that has the network for itself takes as
// long here as there, less the launch time of a device.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMMUNICATORS_LINKS_H
#define HEDDLE_RT_COMMUNICATORS_LINKS_H

#include "heddle_rt/network.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace heddle::runtime {

/// The messages of a phase that a link carries at the same time.
struct LinkLoad {
  int32_t link, messages;
};

/// Messages of equal size that are under way at the same time. They begin
/// `latency` seconds after the phase and occupy their links from then on, until
/// each has sent `bytes` bytes.
struct Phase {
  double latency = 0, bytes = 0;
  std::vector<LinkLoad> loads;
};

/// Phases that follow each other.
using Traffic = std::vector<Phase>;

/// Every unit of a level has two links into the next level: one for messages
/// that leave the unit, one for those that arrive. A message uses the links of
/// the level at which its two ranks meet, and no others.
class Links {
public:
  /// The network has at least `ranks` devices.
  Links(NetworkInfo network, int64_t ranks);

  int32_t count() const { return int32_t(capacities.size()); }
  /// Bytes a second.
  double capacity(int32_t link) const { return capacities[size_t(link)]; }

  // Traffic among the members `ranks` of a group. `blockBytes` go from one
  // member to another in one step.
  Traffic allReduce(std::span<const int32_t> ranks, int64_t bytes) const;
  /// Also of a reduce_scatter.
  Traffic allGather(std::span<const int32_t> ranks, int64_t blockBytes) const;
  Traffic allToAll(std::span<const int32_t> ranks, int64_t blockBytes) const;
  Traffic broadcast(std::span<const int32_t> ranks, int64_t bytes) const;
  /// Member i receives from member sources[i]; from none if that is -1.
  Traffic permute(std::span<const int32_t> ranks, const int32_t *sources,
                  int64_t bytes) const;
  Traffic transfer(int32_t from, int32_t to, int64_t bytes) const;

private:
  using Messages = std::vector<std::pair<int32_t, int32_t>>;

  /// Returns the messages of a step in which every member sends to the member
  /// `shift` places after it, in the order of the ranks.
  static Messages shifted(std::span<const int32_t> ranks, size_t shift);
  /// Returns a phase of these messages that takes the largest latency.
  Phase phase(const Messages &messages, double bytes) const;
  /// Returns the `steps` steps of a ring. In each, a block takes the mean
  /// latency, because it passes along nearly the whole ring and waits for no
  /// other block.
  Phase ring(std::span<const int32_t> ranks, double steps, double bytes) const;
  /// Returns the level at which two ranks meet; that of a rank and itself is
  /// -1.
  int meetingLevel(int32_t from, int32_t to) const;

  NetworkInfo network;
  std::vector<int64_t> unitSizes;  ///< ranks of a unit of the level below
  std::vector<int32_t> firstLinks; ///< by level
  std::vector<double> capacities;  ///< by link
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_LINKS_H
