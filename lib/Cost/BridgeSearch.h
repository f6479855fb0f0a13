//===- BridgeSearch.h - A permute, another op and a permute -----*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_BRIDGESEARCH_H
#define HEDDLE_LIB_COST_BRIDGESEARCH_H

#include "ReshardingMoves.h"
#include "llvm/ADT/STLExtras.h"

namespace heddle {

/// Two permutes around another op let any devices work together in groups of
/// the mesh, also such as share no axis, and let groups of which nothing is
/// needed stand aside. What the first permute leads to is found from what is
/// wanted: of each op that makes the wanted local shape of the given one, the
/// values that a group has to begin with so that it ends with something wanted
/// are known, and there are about as many as groups.
class BridgeSearch {
public:
  BridgeSearch(ReshardingMoves &moves, const HeldTensor &from,
               const HeldTensor &to, const TensorLayout &layout, int64_t below);

  std::vector<Move> find();

private:
  using Runs = std::vector<DimensionRows::Run>;
  /// What devices hold: rows, and which of the distinct sets of summands.
  struct Value {
    std::vector<Runs> rows;
    unsigned set = 0;
    bool operator==(const Value &) const = default;
  };
  /// An op over the axes, and how it changes the local shape.
  struct Op {
    ReshardingStep::Kind kind;
    const std::vector<unsigned> *axes;
    AxisMask mask;
    unsigned dim = 0, concatDim = 0;
    int64_t members = 1, picoseconds = 0;
    CollectiveCost cost = {};
    bool isReduction() const {
      return kind == ReshardingStep::AllReduce ||
             kind == ReshardingStep::ReduceScatter;
    }
    bool joins() const {
      return kind == ReshardingStep::AllGather ||
             kind == ReshardingStep::AllToAll;
    }
    unsigned getJoined() const {
      return kind == ReshardingStep::AllToAll ? concatDim : dim;
    }
  };
  /// What the members of a group begin with (numbers of `given`; -1: nothing
  /// but padding; of a reduction, any summands of a block), and end with
  /// (numbers of `wanted`; -1: of no use).
  struct Entry {
    std::vector<int> given, made;
    uint64_t covers = 0;
    unsigned block = 0;
    bool operator==(const Entry &other) const {
      return given == other.given && block == other.block;
    }
  };

  std::vector<Runs> rowsOf(const HeldTensor &held, int64_t device) const;
  bool isNothing(const std::vector<Runs> &rows) const {
    return llvm::any_of(rows, DimensionRows::isPadding);
  }
  void tryOp(Op op);
  void tryBlocks(const Op &op, unsigned summand);
  void tryEntries(const Op &op);
  void addEntries(const Op &op, unsigned target, int64_t member);
  void addEntry(const Op &op, std::vector<int> given, unsigned block);
  std::optional<Value> make(const Op &op, const Entry &entry,
                            int64_t member) const;
  void assign(const Op &op, uint64_t covered);
  void weigh(const Op &op);
  std::vector<Move> build(const Op &op);

  ReshardingMoves &moves;
  const MeshTopology &topology;
  const HeldTensor &from, &to;
  AxisMask partial = 0; ///< of what is wanted
  bool isMaximum = false;
  int64_t below, devices;
  int64_t leastBefore, leastAfter; ///< picoseconds of the permutes
  std::vector<int64_t> shapeBefore, shapeAfter;
  std::vector<std::vector<unsigned>> setOfDevice, sets;
  size_t numSummands;
  std::vector<Value> given, wanted;
  std::vector<int> givenOf, wantedOf; ///< by device; -1: nothing
  // Of the op at hand. What comes out of a reduction is the sum of a block of
  // summands; blocks are the sets of what is wanted then.
  std::vector<std::vector<unsigned>> blocks;
  std::vector<Entry> entries;
  std::vector<int64_t> groupOf, indexOf; ///< by device
  int64_t numGroups = 0;
  std::vector<int> entryOf; ///< by group; -1: stands aside
  // The best so far.
  std::vector<int64_t> sourcesBefore, sourcesAfter;
  std::vector<Move> best;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_BRIDGESEARCH_H
