//===- RelaySearch.h - Two permutes in a row --------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RELAYSEARCH_H
#define HEDDLE_LIB_COST_RELAYSEARCH_H

#include "ReshardingMoves.h"

namespace heddle {

/// Two permutes in a row, of which the first brings what several devices need
/// over a slow link once and the second gives it to all of them, or the other
/// way round. What each device is given first is chosen in the order of device
/// numbers, by branch and bound, on at most eight devices.
///
/// The bounds count messages over the links of each level's units. A unit needs
/// certain values, each of which has to come in at least once, by the first
/// permute or the second; and what a unit has not after the first comes in by
/// the second, once for each device. Of a partial sum, a group over its axes
/// needs each summand once, wherever in it: its members take from their own
/// units what is there, and for the rest messages come into one of these.
class RelaySearch {
public:
  /// `aligned`: of a partial sum, devices in a group over these axes have the
  /// same summands in the end. `below`: picoseconds of both permutes.
  RelaySearch(ReshardingMoves &moves, const HeldTensor &from,
              const PermuteGoal &goal, AxisMask aligned, int64_t below);

  /// The cheapest two permutes, if there are some.
  std::vector<Move> find();

private:
  /// What a device holds: rows, as `getContents` numbers them, and summands.
  struct Value {
    unsigned content;
    uint64_t summands;
    bool operator==(const Value &) const = default;
  };
  /// Devices that together need each summand of some rows; without a partial
  /// sum one device.
  struct Group {
    unsigned content;
    std::vector<int64_t> members;
  };
  /// What messages into a unit of a level and those around it take at least:
  /// they use the links of this level or of outer ones.
  struct Level {
    int64_t unitSize = 1;
    double latency = 0, secondsPerMessage = 0;
    std::vector<uint64_t> unitsOfGroup = {}, unitsOfValue = {};
    /// Of the first permute, as far as chosen: messages by unit, by value.
    std::vector<int64_t> incoming = {}, crossed = {};
  };
  /// What the first permute takes for the devices chosen so far.
  struct Load {
    double latency = 0, seconds = 0;
  };

  bool isUseful() const;
  double getLeast() const;
  /// Messages that have to come into the units of a group, if devices there
  /// hold these values.
  int64_t countMissing(const Level &level, size_t group,
                       const std::vector<int> &valueOfDevice) const;
  /// Seconds of the second permute at least, without the launch, for groups
  /// among the first devices.
  double getLeastSecond(int64_t chosen) const;
  double getSeconds(const Level &level, int64_t messages) const;
  Load add(Load load, int64_t device, int value, int64_t by);
  void assign(int64_t device, Load load, double second);
  void weigh(double leastFirst, double leastSecond);
  std::vector<Move> build(llvm::ArrayRef<int64_t> first,
                          llvm::ArrayRef<int64_t> second);

  ReshardingMoves &moves;
  const MeshTopology &topology;
  const HeldTensor &from;
  const PermuteGoal &goal;
  AxisMask aligned;
  bool isPossible = true;
  int64_t below, devices;
  double bytes = 0, launch = 0;
  /// Seconds in which at best something moves, without the launch, and that
  /// both permutes take at least.
  double leastMove = 0, leastBoth = 0;
  std::vector<Level> levels;
  std::vector<std::vector<unsigned>> setOfDevice;
  size_t numSummands = 1, largestSet = 1;
  std::vector<Value> values;
  std::vector<int> valueOf;     ///< by device; -1: nothing
  std::vector<unsigned> wanted; ///< contents by device
  std::vector<Group> groups;
  std::vector<std::vector<int>> choices; ///< of each device, its own first
  std::vector<int> given;                ///< what has been chosen
  int64_t visited = 0, weighed = 0;
  std::vector<Move> best;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_RELAYSEARCH_H
