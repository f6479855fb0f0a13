//===- Summands.h - Which part of a sum the devices hold --------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_SUMMANDS_H
#define HEDDLE_LIB_COST_SUMMANDS_H

#include "heddle/Cost/CollectiveCost.h"
#include <map>
#include <optional>
#include <vector>

namespace heddle {

/// What the devices hold of a partial sum (or maximum), as far as ops lead to
/// it: a device's value is the sum of some of the summands, or zeros. Summands
/// that always come together count as one, so that a whole value is one summand
/// that all devices have. Each distinct state has a number.
class Summands {
public:
  struct State {
    /// Of each summand, which devices have it in their value. Sorted.
    std::vector<std::vector<bool>> holders;
    /// The axes along which devices have different ones.
    AxisMask depends = 0;
    /// Of each device: whether it has them all.
    std::vector<bool> hasAll = {};

    /// Every device has the whole value.
    bool isWhole() const {
      return holders.size() == 1 &&
             holders[0] == std::vector<bool>(holders[0].size(), true);
    }
  };

  explicit Summands(const MeshTopology &topology) : topology(topology) {}

  const State &operator[](unsigned state) const { return states[state]; }
  /// A summand for each member over the axes; of no axes the whole value.
  unsigned ofPartial(AxisMask axes);
  /// The members' values added up; nothing if a summand would count twice.
  std::optional<unsigned> reduce(unsigned state, AxisMask axes, bool isMax);
  /// Zeros on all members but the first.
  unsigned keepFirst(unsigned state, AxisMask axes);
  /// Device i has the summands at place i.
  unsigned ofSets(const std::vector<std::vector<unsigned>> &sets);
  std::vector<std::vector<unsigned>> getSets(unsigned state) const;
  /// Whether every group over the axes has each summand, of a sum once.
  bool isPartialOver(unsigned state, AxisMask axes, bool isMax) const;

private:
  unsigned intern(std::vector<std::vector<bool>> holders);

  const MeshTopology &topology;
  std::vector<State> states;
  std::map<std::vector<std::vector<bool>>, unsigned> numbers;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_SUMMANDS_H
