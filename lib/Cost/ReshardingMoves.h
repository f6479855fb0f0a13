//===- ReshardingMoves.h - Single ops on what devices hold ------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDINGMOVES_H
#define HEDDLE_LIB_COST_RESHARDINGMOVES_H

#include "DimensionRows.h"
#include "heddle/Cost/Resharding.h"

namespace heddle {

/// What the devices hold of a tensor: a state of each dimension, and the axes
/// of a partial sum (or maximum).
struct HeldTensor {
  std::vector<unsigned> rows;
  AxisMask partial = 0;
  bool isMax = false;

  bool operator==(const HeldTensor &) const = default;
};

/// An op, and what the devices hold then.
struct Move {
  ReshardingStep::Kind kind;
  std::vector<unsigned> axes;
  unsigned dim = 0, concatDim = 0;
  HeldTensor after = {};
  CollectiveCost cost = {};
};

class ReshardingMoves {
public:
  /// Only the axes `movable` change their places; layouts are those of `base`,
  /// in which they have none, with them in all places. A value that becomes
  /// partial becomes part of a maximum if `wantedMax`.
  ReshardingMoves(const MeshTopology &topology, std::vector<int64_t> shape,
                  int64_t elementBytes, AxisMask movable, TensorLayout base,
                  bool wantedMax);

  HeldTensor hold(const TensorLayout &layout);
  /// The layout in which the devices hold that, if there is one.
  std::optional<TensorLayout> getLayout(const HeldTensor &held) const;
  std::vector<int64_t> getLocalShape(const HeldTensor &held) const;
  bool isPadded(const HeldTensor &held, size_t dim) const {
    return dims[dim][held.rows[dim]].isPadded;
  }

  /// All single ops but permutes.
  std::vector<Move> from(const HeldTensor &held);
  /// Layouts that a permute leads to; what they cost is still open.
  std::vector<HeldTensor> getPermutations(const HeldTensor &held);
  /// A permute, with its cost. Of all devices that hold a part each gives to
  /// one: to itself, else to the nearest.
  Move permute(const HeldTensor &before, const HeldTensor &after,
               std::vector<int64_t> *sources = nullptr) const;

private:
  void addCuts(const std::vector<unsigned> &axes, AxisMask mask, bool isFree);
  void addJoins(const std::vector<unsigned> &axes, AxisMask mask);
  void enumerate(unsigned axis, TensorLayout &layout);
  int64_t getBytes(const HeldTensor &held) const;
  AxisMask getUsed(const HeldTensor &held) const;
  /// What a device holds, as a number.
  uint64_t getContent(const HeldTensor &held, int64_t device) const;
  /// The same for tensors that differ only in who holds what.
  uint64_t getSignature(const HeldTensor &held) const;
  /// The axes over which a permute of the mesh falls into equal ones, and the
  /// sources in such a group.
  std::vector<unsigned> getGroupAxes(const std::vector<int64_t> &sources,
                                     std::vector<int64_t> &inGroup) const;

  const MeshTopology &topology;
  std::vector<int64_t> shape;
  int64_t elementBytes;
  AxisMask movable;
  TensorLayout base;
  bool wantedMax;
  std::vector<DimensionRows> dims;
  /// Every selection of movable axes in every order, and as a mask.
  std::vector<std::pair<std::vector<unsigned>, AxisMask>> orders;
  /// All layouts, by signature.
  std::map<uint64_t, std::vector<HeldTensor>> layouts;
  /// What the moves start from, and the moves.
  HeldTensor current;
  std::vector<Move> moves;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDINGMOVES_H
