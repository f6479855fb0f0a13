//===- Resharding.h - The cheapest way between two layouts ------*- C++ -*-===//
//
// How a tensor lies on a mesh, and the cheapest sequence of local ops and
// collectives from one layout to another: a shortest path in the graph whose
// nodes are what the devices can hold of the tensor and whose edges are single
// ops, weighted by what they take on a cluster. Knows no IR.
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

/// How a tensor lies on a mesh; axes are indices into it. A dimension of size S
/// over n devices has parts of ceil(S / n) rows; device k holds rows
/// [k * part, (k + 1) * part), of which those from S on are padding.
struct TensorLayout {
  /// Of each dimension, the axes that split it, major to minor.
  std::vector<std::vector<unsigned>> dims;
  /// The axes over which the devices hold parts of a sum (or a maximum).
  AxisMask partial = 0;
  /// Of a partial value: a maximum and no sum.
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
  /// Major to minor; of AllReduce, Permute and KeepFirst in the mesh's order.
  std::vector<unsigned> axes;
  unsigned dim = 0, concatDim = 0;
  /// Of a Permute: member i over axes receives what member sources[i] has; -1:
  /// zeros. One member may give to several.
  std::vector<int64_t> sources = {};
  /// What each device holds afterwards, and which dimensions some device has
  /// padding of.
  std::vector<int64_t> localShape = {};
  std::vector<bool> isPadded = {};
  /// What is partial afterwards is a maximum and no sum.
  bool isMax = false;
  /// Between two steps, rows may be in an order that no layout describes.
  std::optional<TensorLayout> after = {};
  CollectiveCost cost = {};
};

/// "all_gather", "slice", ... as the ops are called.
llvm::StringRef stringifyReshardingKind(ReshardingStep::Kind kind);

struct Resharding {
  std::vector<ReshardingStep> steps;
  CollectiveCost cost = {};
};

/// Finds reshardings on one mesh and remembers what it has looked at. Of
/// sequences that take equally long the one with fewer steps is chosen, then
/// with fewer permutes, then the one that is found first; the result does not
/// depend on earlier calls.
///
/// On the way, two states in a row may be no layouts, if up to three axes move
/// on up to 8 devices; one, on up to 64. Permutes are tried if up to four axes
/// move. Axes of size 1 count for nothing. An axis that from and to have in one
/// and the same place stays there, unless rows have to move between its members
/// (parts do not nest), or it is one of the first that make up, with those that
/// do not, at most four axes of at most 64 devices.
class ReshardingPlanner {
public:
  explicit ReshardingPlanner(MeshTopology topology);
  ~ReshardingPlanner();
  ReshardingPlanner(ReshardingPlanner &&) noexcept;

  const MeshTopology &getTopology() const { return *topology; }

  /// `elementBytes`: of one element, at least 1. There is always a way, if only
  /// by gathering the whole tensor; the layouts must have a list for every
  /// dimension of `shape`, and every axis at most once.
  Resharding find(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                  const TensorLayout &from, const TensorLayout &to);

private:
  class Graph;
  struct Key;
  /// The mesh without axes that stay where they are; null: with all.
  struct Slice {
    std::unique_ptr<MeshTopology> topology;
    AxisMask removed = 0;
  };

  const Slice &getSlice(llvm::ArrayRef<int64_t> shape, AxisMask movable,
                        const TensorLayout &base);

  std::unique_ptr<MeshTopology> topology;
  /// By the axes that stay and may be removed.
  std::map<AxisMask, Slice> slices;
  std::map<Key, std::unique_ptr<Graph>> graphs;
};

} // namespace heddle

#endif // HEDDLE_COST_RESHARDING_H
