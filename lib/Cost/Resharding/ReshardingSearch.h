//===- ReshardingSearch.h - Shortest paths from one layout ------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDING_RESHARDINGSEARCH_H
#define HEDDLE_LIB_COST_RESHARDING_RESHARDINGSEARCH_H

#include "ReshardingGraph.h"
#include <queue>

namespace heddle {

/// Dijkstra's search from one layout, with at most one permute on a path. The
/// search stops when it reaches its goal, and goes on from there for the next
/// goal.
class ReshardingSearch {
public:
  ReshardingSearch(ReshardingGraph &graph, unsigned start);

  unsigned getStart() const { return start; }
  Resharding find(unsigned goal);

private:
  /// A node, and whether the path to it has a permute.
  struct State {
    unsigned node;
    bool isPermuted;
  };
  /// Paths are compared by cost, then by steps, then by permutes.
  struct Length {
    int64_t picoseconds;
    unsigned steps, permutes;
    auto operator<=>(const Length &) const = default;
  };
  struct Reached {
    Length length = {INT64_MAX, 0, 0};
    /// The previous state of the path, and the edge that leaves it.
    State previous = {};
    unsigned edge = 0;
    bool isDone = false;
  };
  /// Equally long paths are continued in the order in which they were found.
  struct Entry {
    Length length;
    unsigned order;
    State state;
    bool operator>(const Entry &other) const {
      return std::tie(length, order) > std::tie(other.length, other.order);
    }
  };

  Reached &getReached(State state);
  /// Continues the shortest path that has not been continued yet.
  void advance();
  void reach(State state, const Reached &how);

  ReshardingGraph &graph;
  unsigned start, found = 0;
  /// Indexed by node and by whether the path has a permute.
  std::vector<std::array<Reached, 2>> reached;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDING_RESHARDINGSEARCH_H
