//===- ReshardingGraph.h - Single ops on layouts ----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDINGGRAPH_H
#define HEDDLE_LIB_COST_RESHARDINGGRAPH_H

#include "heddle/Cost/Resharding.h"

namespace heddle {

/// The layouts that one op leads to, and what it costs.
class ReshardingMoves {
public:
  /// Axes that are not `movable` stay where they are. A value that becomes
  /// partial becomes part of a maximum if `wantedMax`.
  ReshardingMoves(const MeshTopology &topology, std::vector<int64_t> shape,
                  int64_t elementBytes, AxisMask movable, bool wantedMax)
      : topology(topology), shape(std::move(shape)), elementBytes(elementBytes),
        movable(movable), wantedMax(wantedMax) {}

  std::vector<ReshardingStep> from(TensorLayout layout);

  /// Of all layouts in which devices hold the same as in this one, one. They
  /// differ where so few parts have rows that the order of axes is all one.
  TensorLayout canonicalize(TensorLayout layout);

  /// The sources of a permute from that layout.
  std::vector<int64_t> getSources(const TensorLayout &before,
                                  const ReshardingStep &permute) const;

private:
  void slices(AxisMask free);
  void reductions();
  void gathers();
  void exchanges();
  void permutes(AxisMask free);
  void keepFirst(AxisMask free);

  void add(ReshardingStep step) { steps.push_back(std::move(step)); }
  int64_t getSize(llvm::ArrayRef<unsigned> axes) const;
  /// Rows of a part.
  int64_t getPart(size_t dim, int64_t parts) const;
  /// Bytes that a device holds.
  int64_t getBytes(const TensorLayout &layout) const;
  /// Whether `parts` parts of a dimension, each cut into `more`, are its parts
  /// when cut into parts * more. The first part always fits, so that it is also
  /// enough if the others are padding.
  bool nests(size_t dim, int64_t parts, int64_t more) const;
  /// Tries to make a permute of the layouts.
  void addPermute(const TensorLayout &after);
  /// The rest of the enumeration: dimensions from `dim` on take axes of `pool`.
  void choosePlaces(TensorLayout &after, size_t dim, AxisMask pool);
  void choosePlaces(TensorLayout &after, size_t dim, int64_t wanted,
                    AxisMask pool);
  /// Finds the sources and what they cost; false if there are none.
  bool setPermuteCost(ReshardingStep &step) const;
  /// The groups over axes; members in the order of device numbers.
  std::vector<std::vector<int64_t>>
  getGroups(llvm::ArrayRef<unsigned> axes) const;
  /// Axes that are counted elsewhere or with another stride.
  std::vector<unsigned> getMovedAxes(const TensorLayout &after) const;

  const MeshTopology &topology;
  std::vector<int64_t> shape;
  int64_t elementBytes;
  AxisMask movable;
  bool wantedMax;
  /// Lists of axes by which devices hold the same rows of the dimension, the
  /// list among them.
  const std::vector<std::vector<unsigned>> &
  getOrders(size_t dim, const std::vector<unsigned> &list);

  std::map<std::pair<size_t, std::vector<unsigned>>,
           std::vector<std::vector<unsigned>>>
      orders;
  /// The layout that the moves start from.
  TensorLayout layout;
  std::vector<ReshardingStep> steps;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDINGGRAPH_H
