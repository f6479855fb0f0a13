//===- ReshardingMoves.h - Single ops on what devices hold ------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDINGMOVES_H
#define HEDDLE_LIB_COST_RESHARDINGMOVES_H

#include "DimensionRows.h"
#include "Summands.h"
#include "heddle/Cost/Resharding.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/bit.h"

namespace heddle {

/// What the devices hold of a tensor: a state of each dimension, and one of the
/// summands.
struct HeldTensor {
  std::vector<unsigned> rows;
  unsigned summands = 0;
  /// What the devices hold are parts of a maximum and no sum.
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
  /// Of a permute: where each device receives from; -1: zeros.
  std::vector<int64_t> sources = {};
};

/// What permutes lead to: the rows of a layout, partial over some axes.
struct PermuteGoal {
  std::vector<unsigned> rows;
  AxisMask partial = 0;
};

class ReshardingMoves {
public:
  /// Only the axes `movable` change their places; layouts are those of `base`,
  /// in which they have none, with them in all places.
  ReshardingMoves(const MeshTopology &topology, std::vector<int64_t> shape,
                  int64_t elementBytes, AxisMask movable, TensorLayout base);

  /// Few enough devices and axes to try what would be too much on more.
  bool isSmall() const {
    return llvm::popcount(movable) <= 3 && topology.getNumDevices() <= 8;
  }
  HeldTensor hold(const TensorLayout &layout);
  /// Whether the devices hold what that layout says.
  bool isHeldAs(const HeldTensor &held, const HeldTensor &wanted,
                const TensorLayout &layout) const;
  /// A layout in which the devices hold that, if there is one.
  std::optional<TensorLayout> getLayout(const HeldTensor &held) const;
  /// Whether some layout describes the rows.
  bool isLayout(const HeldTensor &held) const;
  std::vector<int64_t> getLocalShape(const HeldTensor &held) const;
  bool isWhole(const HeldTensor &held) const { return held.summands == whole; }
  bool isPadded(const HeldTensor &held, size_t dim) const {
    return dims[dim][held.rows[dim]].isPadded;
  }

  /// Picoseconds that any op takes.
  int64_t getLaunch() const;
  /// Picoseconds in which at best one op lets each device receive what it has
  /// not of the wanted rows.
  int64_t getLeastRest(const HeldTensor &held, const HeldTensor &wanted);

  /// All single ops but permutes.
  std::vector<Move> from(const HeldTensor &held);
  /// What permutes may lead to, with seconds that they take at least.
  std::vector<std::pair<const PermuteGoal *, double>>
  getPermutes(const HeldTensor &held);
  /// The axes over which devices may be made to have the same summands.
  std::vector<AxisMask> getAlignments(const PermuteGoal &goal) const;
  /// The cheapest permute, if there is one. (Of more than eight devices: one
  /// in which each device in turn receives from where that adds least.)
  /// `aligned`: of a partial sum, devices in a group over these axes have the
  /// same summands, so that their rows can be joined.
  std::optional<Move> permute(const HeldTensor &before, const PermuteGoal &goal,
                              AxisMask aligned);
  /// A permute and one or, if so many may be, two other ops from one state to
  /// another that is held as the layout, if they take less than `below`
  /// picoseconds: the cheapest.
  std::vector<Move> permuteFirst(const HeldTensor &from, const HeldTensor &to,
                                 const TensorLayout &layout, unsigned mostOps,
                                 int64_t below);
  /// A permute, another op and a permute from one state to another that is held
  /// as the layout, if they take less than `below` picoseconds: the cheapest in
  /// which the rest is as it has to be. On at most eight devices.
  std::vector<Move> bridge(const HeldTensor &from, const HeldTensor &to,
                           const TensorLayout &layout, int64_t below);
  /// Two permutes, and another op after them if that may be, from one state to
  /// another that is held as the layout, if they take less than `below`
  /// picoseconds: the cheapest. On at most eight devices.
  std::vector<Move> relay(const HeldTensor &from, const HeldTensor &to,
                          const TensorLayout &layout, bool mayFollow,
                          int64_t below);
  /// Whether two permutes of what devices hold may take less than one.
  bool mayRelay(const HeldTensor &held) const;
  /// The axes over which a permute of the mesh falls into equal ones, and the
  /// sources in such a group.
  std::vector<unsigned> getGroupAxes(const std::vector<int64_t> &sources,
                                     std::vector<int64_t> &inGroup) const;

private:
  friend class BridgeSearch;
  friend class RelaySearch;

  void addCuts(const std::vector<unsigned> &axes, AxisMask mask);
  void addJoins(const std::vector<unsigned> &axes, AxisMask mask);
  void addGoal(const HeldTensor &held, AxisMask partial);
  void enumerate(unsigned axis, TensorLayout &layout);
  const std::vector<int64_t> &getCommon(size_t dim, unsigned have,
                                        unsigned want);
  int64_t getBytes(const HeldTensor &held) const;
  AxisMask getRowAxes(const HeldTensor &held) const;
  /// Of what single ops, but permutes, make that, and with what local shape if
  /// that is given.
  void forEachBefore(
      const PermuteGoal &after, const std::vector<int64_t> *shapeBefore,
      bool isMax,
      llvm::function_ref<void(const PermuteGoal &, const Move &)> visit);
  /// What devices hold after a permute to a goal.
  HeldTensor getPermuted(const HeldTensor &before, const PermuteGoal &goal,
                         AxisMask aligned, llvm::ArrayRef<int64_t> sources);
  /// The moves and then ops like those given, if that leads to what is held as
  /// the layout; else nothing.
  std::vector<Move> followBy(std::vector<Move> moves, llvm::ArrayRef<Move> ops,
                             const HeldTensor &to, const TensorLayout &layout);
  /// Whether devices hold all rows that a permute is to lead to.
  bool isThere(const HeldTensor &held, const PermuteGoal &goal);
  /// Picoseconds that a permute of what devices hold takes at least.
  int64_t getLeastPermute(const HeldTensor &held) const;
  /// What a permute takes at least; nothing if there can be none.
  std::optional<double> getLeastSeconds(const HeldTensor &held,
                                        const PermuteGoal &goal);
  int getNearestLevel(const std::vector<unsigned> &rows, int64_t device,
                      unsigned content);
  /// Of each device, a number for the rows that it holds; 0: none but padding.
  const std::vector<unsigned> &getContents(const std::vector<unsigned> &rows);

  const MeshTopology &topology;
  std::vector<int64_t> shape;
  int64_t elementBytes;
  AxisMask movable;
  TensorLayout base;
  std::vector<DimensionRows> dims;
  Summands summands;
  unsigned whole;
  /// By dimension and two states of it.
  std::vector<std::unordered_map<uint64_t, std::vector<int64_t>>> commons;
  /// Every selection of movable axes in every order, and as a mask.
  std::vector<std::pair<std::vector<unsigned>, AxisMask>> orders;
  /// By the shape of what devices hold.
  std::map<std::vector<int64_t>, std::vector<PermuteGoal>> goals;
  std::map<std::vector<unsigned>, std::vector<unsigned>> contents;
  std::unordered_map<uint64_t, unsigned> contentNumbers;
  /// Of the rows that were asked about last: a level and what is held there,
  /// and the units of the level in which it is.
  std::vector<unsigned> placesOf;
  llvm::DenseSet<std::pair<std::pair<unsigned, unsigned>, int64_t>> places;
  /// What the moves start from, and the moves.
  HeldTensor current;
  std::vector<Move> moves;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDINGMOVES_H
