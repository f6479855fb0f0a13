//===- LinkTraffic.h - What communication sends over which links *- C++ -*-===//
//
// The traffic of a collective on the links of a cluster, and the pace at which
// several collectives share the links. Algorithms and times are those of
// heddle/Cost/CollectiveCost.h, and links are shared as by the runtime's
// emulated links (runtime/communicators/Network.h): the messages on a link have
// equal parts of its bandwidth, and all messages of a phase go at the pace of
// the slowest one. All groups of a collective communicate at the same time.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SIMULATE_LINKS_LINKTRAFFIC_H
#define HEDDLE_LIB_SIMULATE_LINKS_LINKTRAFFIC_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Simulate/CostModel.h"
#include <map>

namespace heddle {

/// Messages of equal size that are under way at the same time. They begin
/// `latency` seconds after the phase, and then occupy their links until each
/// has sent `bytes` bytes.
struct TrafficPhase {
  double latency = 0, bytes = 0;
  int pattern = -1; ///< the links that the messages use; -1: none
};

/// Phases that follow each other.
using Traffic = llvm::SmallVector<TrafficPhase, 1>;

/// Pairs of a sending and a receiving device.
using Messages = std::vector<std::pair<int64_t, int64_t>>;

/// Every unit of a level has two links into the level: one for messages that
/// leave the unit, one for those that arrive. A message uses the links of the
/// level at which its two devices meet. The set of links that a phase uses, and
/// the number of its messages on each, is a pattern. Patterns are numbered.
class LinkTraffic {
public:
  explicit LinkTraffic(MeshTopology topology);

  const MeshTopology &getTopology() const { return topology; }

  /// Returns the traffic of a collective among those members of its groups that
  /// are in `devices`, which ascend. Groups of one member have none.
  Traffic getTraffic(const Communication &collective,
                     llvm::ArrayRef<int64_t> devices);
  /// Returns the traffic of a transfer of `bytes` bytes a message.
  Traffic getTransfer(const Messages &messages, int64_t bytes);

  /// Returns the seconds that the traffic takes if nothing else is under way.
  double getSeconds(const Traffic &traffic) const;

  /// Returns, for each of the patterns that are under way at the same time, the
  /// seconds that its messages take for a byte. `patterns` ascends, and may
  /// have a pattern several times. Valid until the next call.
  llvm::ArrayRef<double> getPaces(llvm::ArrayRef<int> patterns);

  /// Returns, for each level of the cluster, the seconds for which the bytes
  /// occupy the busiest link. `bytes[p]` is the number of bytes that each
  /// message of pattern p sends.
  std::vector<double> getBusiestLinks(llvm::ArrayRef<double> bytes) const;

private:
  struct Load {
    unsigned link;
    int64_t messages;
    bool operator<(const Load &other) const {
      return std::tie(link, messages) < std::tie(other.link, other.messages);
    }
  };
  using Pattern = std::vector<Load>;
  /// The latency and the pattern of one step of an algorithm.
  struct Step {
    double latency = 0;
    int pattern = -1;
  };

  Step getStep(const Messages &messages);
  /// Returns the steps of an all-to-all, or the repeated step of a ring, and the
  /// size of the largest group. In step i of an all-to-all, every member sends
  /// to the member i places further on in its group.
  std::pair<std::vector<Step>, int64_t>
  getShifts(llvm::ArrayRef<unsigned> axes, llvm::ArrayRef<int64_t> devices,
            bool isAllToAll);

  MeshTopology topology;
  std::vector<unsigned> firstLinks; ///< by level
  std::vector<unsigned> levels;     ///< by link
  std::vector<double> capacities;   ///< by link, bytes a second
  std::vector<Pattern> patterns;
  std::map<Pattern, int> numbers;
  std::vector<double> alone; ///< by pattern: seconds a byte
  std::map<std::vector<int>, std::vector<double>> paces;
  std::map<std::tuple<std::vector<unsigned>, std::vector<int64_t>, bool>,
           std::pair<std::vector<Step>, int64_t>>
      shifts;
};

} // namespace heddle

#endif // HEDDLE_LIB_SIMULATE_LINKS_LINKTRAFFIC_H
