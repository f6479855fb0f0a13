//===- PermuteSources.h - Who receives from whom ----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_PERMUTESOURCES_H
#define HEDDLE_LIB_COST_PERMUTESOURCES_H

#include "heddle/Cost/CollectiveCost.h"
#include <limits>
#include <vector>

namespace heddle {

/// Chooses a source for each device: by branch and bound, on at most eight
/// devices; on more of them the first complete choice.
class PermuteSources {
public:
  /// `bytes`: what each device receives.
  PermuteSources(const MeshTopology &topology, int64_t bytes);

  /// Of each device, from which it may receive; -1: zeros.
  std::vector<std::vector<int64_t>> &getCandidates() { return candidates; }

  /// Of a sum: the summands of each device's value, and the group that it is
  /// in; -1: in none. A group needs so many different summands, each of them
  /// once (`once`) or more often. A device has the same summands as its model,
  /// which comes before it or is itself.
  void setSummands(std::vector<std::vector<unsigned>> summandSets,
                   std::vector<int64_t> groupOfDevice,
                   std::vector<int64_t> modelOfDevice,
                   std::vector<int64_t> neededByGroup, bool once);

  /// The cheapest sources that take less than `below` seconds, or none. Looks
  /// no further when it has some that take `least`.
  llvm::ArrayRef<int64_t>
  find(double least, double below = std::numeric_limits<double>::infinity());

private:
  struct Load {
    double latency = 0, secondsPerByte = 0;
    bool isLocal = false;
  };
  struct Choice {
    int64_t source;
    Load load;
    double seconds;
    int64_t crossed, uses;
  };
  /// The choices of one device, of which `next` comes next.
  struct Frame {
    std::vector<Choice> choices;
    size_t next = 0;
  };

  double getSeconds(const Load &load) const;
  int64_t countCrossed(int64_t a, int64_t b) const;
  Load add(Load load, int64_t device, int64_t source) const;
  void count(int64_t device, int64_t source, int64_t by);
  bool hasSameSet(int64_t a, int64_t b) const;
  bool enter(int64_t device, int64_t source);
  void leave(int64_t device, int64_t source);
  Frame open(int64_t device, const Load &load) const;

  const MeshTopology &topology;
  int64_t bytes;
  std::vector<std::vector<int64_t>> candidates;
  std::vector<std::vector<int64_t>> out, in; ///< messages by level and unit
  std::vector<int64_t> uses, chosen, best;
  static constexpr int64_t kNone = -2; ///< no source chosen
  bool isOnce = true;
  std::vector<std::vector<unsigned>> sets;
  std::vector<int64_t> groups, models;
  std::vector<int64_t> missing, members;     ///< of each group
  std::vector<std::vector<int64_t>> present; ///< by group and summand
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_PERMUTESOURCES_H
