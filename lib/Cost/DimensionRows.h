//===- DimensionRows.h - Which rows the devices hold ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_DIMENSIONROWS_H
#define HEDDLE_LIB_COST_DIMENSIONROWS_H

#include "heddle/Cost/CollectiveCost.h"
#include <optional>
#include <unordered_map>
#include <vector>

namespace heddle {

/// What the devices hold of one dimension of a tensor, as far as ops lead to
/// it: layouts, and rows in any other order or grouping (a part of a part that
/// does not divide, the parts along the major of two axes side by side). Each
/// distinct state has a number, and the ops are tables of numbers.
class DimensionRows {
public:
  /// Rows [first, first + count) of the tensor, or padding if first is -1.
  struct Run {
    int64_t first, count;
    bool operator==(const Run &) const = default;
  };
  struct State {
    /// Rows that a device holds, with padding.
    int64_t rows = 0;
    /// Of each device.
    std::vector<std::vector<Run>> held;
    /// One number a device; equal if the rows are.
    std::vector<uint64_t> hashes;
    /// The axes along which devices hold different rows.
    AxisMask depends = 0;
    /// Some device holds padding.
    bool isPadded = false;
    /// The axes that split the dimension, if they describe the state.
    std::optional<std::vector<unsigned>> layout;
  };

  DimensionRows(const MeshTopology &topology, int64_t size);

  static bool isPadding(const std::vector<Run> &runs);
  /// Adds a run at the end.
  static void append(std::vector<Run> &runs, Run run);
  /// Positions [begin, begin + count), and padding beyond the end.
  static std::vector<Run> take(const std::vector<Run> &runs, int64_t begin,
                               int64_t count);

  const State &operator[](unsigned state) const { return states[state]; }
  /// The state of a layout. The first list that leads to a state is its layout.
  unsigned ofLayout(const std::vector<unsigned> &axes);
  /// Device i gets what device sources[i] holds; -1: padding.
  unsigned permute(unsigned state, const std::vector<int64_t> &sources);
  /// Every device keeps its part: of `axes`, the first is major.
  unsigned cut(unsigned state, const std::vector<unsigned> &axes);
  /// The parts of the members over `axes`, one after the other, in each way of
  /// dropping padding at the end that some layout could want.
  const std::vector<unsigned> &join(unsigned state,
                                    const std::vector<unsigned> &axes);

private:
  unsigned intern(State state);
  int64_t getIndex(int64_t device, const std::vector<unsigned> &axes) const;

  const MeshTopology &topology;
  int64_t size;
  std::vector<State> states;
  std::unordered_map<std::string, unsigned> numbers;
  using Key = std::pair<unsigned, std::vector<unsigned>>;
  std::map<Key, unsigned> cuts;
  std::map<Key, std::vector<unsigned>> joins;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_DIMENSIONROWS_H
