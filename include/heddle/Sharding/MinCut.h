//===- MinCut.h - A least cut of a small graph ------------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_MINCUT_H
#define HEDDLE_SHARDING_MINCUT_H

#include <cstdint>
#include <vector>

namespace heddle {

/// A directed graph with capacities, and its least cut (Dinic, "Algorithm for
/// Solution of a Problem of Maximum Flow", 1970).
class MinCut {
public:
  /// The capacity of an edge that no cut contains. The capacities of all other
  /// edges must add up to less.
  static constexpr int64_t kInfinite = int64_t(1) << 60;

  /// The numbers of the two ends, which every graph has.
  static constexpr int32_t kSource = 0, kSink = 1;

  MinCut() : edgesOf(2) {}

  int32_t addNode() {
    edgesOf.emplace_back();
    return static_cast<int32_t>(edgesOf.size()) - 1;
  }
  void addEdge(int32_t from, int32_t to, int64_t capacity);

  /// Returns for each node whether it is on the source's side of a least cut.
  /// If there are several least cuts, the cut nearest to the source is taken.
  /// Call the function once: it uses up the capacities.
  std::vector<bool> findSourceSide();

private:
  struct Edge {
    int32_t to;
    int64_t capacity; ///< what is left of it
  };

  /// Numbers the nodes by their distance from the source. Returns whether the
  /// sink can be reached.
  bool findLevels();
  /// Sends flow along one shortest path. Returns the flow, 0 if there is no
  /// path.
  int64_t augment();

  std::vector<Edge> edges; ///< edge e and its reverse e ^ 1
  std::vector<std::vector<int32_t>> edgesOf;
  std::vector<int32_t> levels;
  std::vector<size_t> next; ///< the edge of each node to try next
};

} // namespace heddle

#endif // HEDDLE_SHARDING_MINCUT_H
