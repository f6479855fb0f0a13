//===- Resharding.h - The cheapest way between two layouts ------*- C++ -*-===//
//
// The layouts of a tensor on a mesh, and the cheapest sequence of local ops and
// collectives from one layout to another. The sequence is a shortest path in a
// graph, whose nodes are layouts and whose edges are single ops, weighted by
// their time on a cluster. Knows no IR.
//
// Examples on a mesh a=2, b=2, for a tensor 8x8. From [{a}, {}] to [{}, {a}],
// the path is one all-to-all. From [{a, b}, {}] to [{b, a}, {}], it is one
// permute. From [{}, {}], partial over a, to [{a}, {}], it is one
// reduce-scatter.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_RESHARDING_H
#define HEDDLE_COST_RESHARDING_H

#include "heddle/Cost/CollectiveCost.h"
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace heddle {

/// The layout of a tensor on a mesh; axes are indices into the mesh. A
/// dimension of size S over n devices has parts of ceil(S / n) rows. Device k
/// holds rows [k * part, (k + 1) * part); rows from S on are padding.
struct TensorLayout {
  /// For each dimension, the axes that split it, major to minor.
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
    Slice,         ///< axes split dim, too; nothing is sent
    ReduceScatter, ///< reduces over axes, which then split dim
    AllReduce,     ///< reduces over axes
    AllToAll,      ///< axes that split concatDim split dim instead
    AllGather,     ///< axes that split dim do not split it any more
    Permute,       ///< every device receives from at most one; shapes stay
    KeepFirst,     ///< a replicated value becomes a partial one over axes: of a
                   ///< sum, all devices but the first hold zero
  };
  Kind kind;
  /// Major to minor; in the mesh's order for AllReduce, Permute and KeepFirst.
  std::vector<unsigned> axes;
  unsigned dim = 0, concatDim = 0;
  /// For a Permute: member i over `axes` receives the value of member
  /// sources[i], or zeros if that is -1. Several members may receive from the
  /// same member.
  std::vector<int64_t> sources = {};
  /// The layout after the step, each device's shape in it, and whether some
  /// device has padding in each dimension.
  TensorLayout after = {};
  std::vector<int64_t> localShape = {};
  std::vector<bool> isPadded = {};
  CollectiveCost cost = {};
};

/// Returns the name of a step's op: "all_gather", "slice", ...
llvm::StringRef stringifyReshardingKind(ReshardingStep::Kind kind);

struct Resharding {
  std::vector<ReshardingStep> steps;
  CollectiveCost cost = {};
};

/// Finds reshardings on one mesh, and caches the graphs of layouts. A
/// resharding has at most one permute. Among sequences of equal time, the one
/// with fewer steps is chosen, then the one with fewer permutes, then the one
/// that is found first. The result does not depend on earlier calls. Calls are
/// fastest if those with the same `from` follow each other.
///
/// Axes of size 1 do not count. With more than four other axes, only a part of
/// the layouts is searched. At most four axes move freely: first those whose
/// places in `from` and `to` differ, then further axes up to the limit. All
/// other axes stay in their place. If more than four have to move, each only
/// moves between its two places.
///
/// Devices along `closed` axes need not hold the same tensors (the stages of a
/// pipeline). A resharding between layouts that do not use such an axis does
/// not use it either.
class ReshardingPlanner {
public:
  explicit ReshardingPlanner(MeshTopology topology, AxisMask closed = 0);
  ~ReshardingPlanner();
  ReshardingPlanner(ReshardingPlanner &&) noexcept;

  const MeshTopology &getTopology() const { return *topology; }

  /// Finds the cheapest resharding. There is always one: at worst the whole
  /// tensor is gathered. `elementBytes` is the size of one element, at least 1.
  /// The layouts must have a list for every dimension of `shape`, and every
  /// axis at most once.
  Resharding find(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                  const TensorLayout &from, const TensorLayout &to);

private:
  struct Key;
  struct Searcher;

  TensorLayout getClean(TensorLayout layout) const;
  /// Finds the resharding between layouts without axes of size 1.
  Resharding findExactly(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                         const TensorLayout &from, const TensorLayout &to);

  std::unique_ptr<MeshTopology> topology;
  AxisMask closed;
  std::map<Key, std::unique_ptr<Searcher>> searchers;
};

/// Finds each resharding on one mesh once, and keeps all of them.
class KnownReshardings {
public:
  explicit KnownReshardings(MeshTopology topology, AxisMask closed = 0)
      : planner(std::move(topology), closed) {}

  const MeshTopology &getTopology() const { return planner.getTopology(); }

  /// As ReshardingPlanner::find. The result lives as long as this object.
  const Resharding &find(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                         const TensorLayout &from, const TensorLayout &to);

private:
  using Layout = std::tuple<std::vector<std::vector<unsigned>>, AxisMask, bool>;
  using Key = std::tuple<std::vector<int64_t>, int64_t, Layout, Layout>;

  ReshardingPlanner planner;
  std::map<Key, Resharding> known;
};

} // namespace heddle

#endif // HEDDLE_COST_RESHARDING_H
