//===- Resharding.h - The cheapest way between two layouts ------*- C++ -*-===//
//
// The layouts of a tensor on a mesh, and the cheapest sequence of local ops and
// collectives from one layout to another. The sequence is a shortest path in a
// graph: nodes are layouts, edges are single ops weighted by their time on a
// cluster. Knows no IR.
//
// Example (mesh a=2, b=2, tensor 8x8): from [{a}, {}] to [{}, {a}] the path is
// one all-to-all; from [{a, b}, {}] to [{b, a}, {}] one permute; from [{}, {}]
// partial over a to [{a}, {}] one reduce-scatter.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_RESHARDING_H
#define HEDDLE_COST_RESHARDING_H

#include "heddle/Cost/CollectiveCost.h"
#include <memory>
#include <optional>
#include <vector>

namespace heddle {

/// The layout of a tensor on a mesh; axes are indices into the mesh. A
/// dimension of size S over n devices has parts of ceil(S / n) rows. Device k
/// holds rows [k * part, (k + 1) * part); rows from S on are padding.
struct TensorLayout {
  /// For each dimension the axes that split it, major to minor.
  std::vector<std::vector<unsigned>> dims;
  /// The axes over which the devices hold parts of a sum (or a maximum).
  AxisMask partial = 0;
  /// Whether the partial value is a maximum and not a sum.
  bool isMax = false;

  bool operator==(const TensorLayout &other) const {
    return dims == other.dims && partial == other.partial &&
           (!partial || isMax == other.isMax);
  }
};

/// One op of a resharding.
struct ReshardingStep {
  enum Kind {
    Slice,         ///< dim is split by axes, too; nothing moves
    ReduceScatter, ///< axes leave the partial and split dim
    AllReduce,     ///< axes leave the partial
    AllToAll,      ///< axes leave concatDim and split dim
    AllGather,     ///< axes leave dim
    Permute,       ///< every device receives from at most one; shapes stay
    KeepFirst,     ///< a replicated value becomes a partial one over axes: of a
                   ///< sum, all devices but the first hold zero
  };
  Kind kind;
  /// Major to minor. For AllReduce, Permute and KeepFirst in the mesh's order.
  std::vector<unsigned> axes;
  unsigned dim = 0, concatDim = 0;
  /// For a Permute: member i over axes receives the value of member sources[i],
  /// or zeros if that is -1. Several members may receive from one.
  std::vector<int64_t> sources = {};
  /// The layout after the step, each device's shape in it, and the dimensions
  /// of which some device has padding.
  TensorLayout after = {};
  std::vector<int64_t> localShape = {};
  std::vector<bool> isPadded = {};
  CollectiveCost cost = {};
};

/// The name of the op for a step: "all_gather", "slice", ...
llvm::StringRef stringifyReshardingKind(ReshardingStep::Kind kind);

struct Resharding {
  std::vector<ReshardingStep> steps;
  CollectiveCost cost = {};
};

/// Finds reshardings on one mesh, and caches the graphs of layouts. A
/// resharding has at most one permute. Among sequences of equal time the one
/// with fewer steps is chosen, then with fewer permutes, then the one found
/// first. The result does not depend on earlier calls. Pairs with the same
/// `from` are fastest one after the other.
///
/// Axes of size 1 do not count. A mesh of more than four other axes is searched
/// only in part: axes that `from` and `to` have in the same place stay there,
/// as far as that leaves four axes that move. If more have to move, each only
/// moves between its two places.
class ReshardingPlanner {
public:
  explicit ReshardingPlanner(MeshTopology topology);
  ~ReshardingPlanner();
  ReshardingPlanner(ReshardingPlanner &&) noexcept;

  const MeshTopology &getTopology() const { return *topology; }

  /// `elementBytes` is the size of one element, at least 1. There is always a
  /// way: at worst the whole tensor is gathered. The layouts must have a list
  /// for every dimension of `shape`, and every axis at most once.
  Resharding find(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                  const TensorLayout &from, const TensorLayout &to);

private:
  struct Key;
  struct Searcher;

  TensorLayout getClean(TensorLayout layout) const;
  /// Finds the way between layouts without axes of size 1.
  Resharding findExactly(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                         const TensorLayout &from, const TensorLayout &to);

  std::unique_ptr<MeshTopology> topology;
  std::map<Key, std::unique_ptr<Searcher>> searchers;
};

} // namespace heddle

#endif // HEDDLE_COST_RESHARDING_H
