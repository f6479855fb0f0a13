//===- MinCut.cpp - A least cut of a small graph --------------------------===//

#include "heddle/Sharding/MinCut.h"
#include <algorithm>
#include <deque>

using namespace heddle;

void MinCut::addEdge(int32_t from, int32_t to, int64_t capacity) {
  edgesOf[from].push_back(static_cast<int32_t>(edges.size()));
  edges.push_back({to, capacity});
  edgesOf[to].push_back(static_cast<int32_t>(edges.size()));
  edges.push_back({from, 0});
}

bool MinCut::findLevels() {
  levels.assign(edgesOf.size(), -1);
  levels[kSource] = 0;
  std::deque<int32_t> queue{kSource};
  while (!queue.empty()) {
    int32_t node = queue.front();
    queue.pop_front();
    for (int32_t edge : edgesOf[node])
      if (edges[edge].capacity > 0 && levels[edges[edge].to] < 0) {
        levels[edges[edge].to] = levels[node] + 1;
        queue.push_back(edges[edge].to);
      }
  }
  return levels[kSink] >= 0;
}

int64_t MinCut::augment() {
  // A stack of its own, because paths are as long as programs.
  std::vector<int32_t> path;
  int32_t node = kSource;
  while (node != kSink) {
    size_t &at = next[node];
    while (at < edgesOf[node].size()) {
      const Edge &edge = edges[edgesOf[node][at]];
      if (edge.capacity > 0 && levels[edge.to] == levels[node] + 1)
        break;
      ++at;
    }
    if (at < edgesOf[node].size()) {
      path.push_back(edgesOf[node][at]);
      node = edges[path.back()].to;
    } else if (path.empty()) {
      return 0;
    } else {
      // A dead end: the edge that led here is not tried again.
      node = edges[path.back() ^ 1].to;
      path.pop_back();
      ++next[node];
    }
  }
  int64_t flow = kInfinite;
  for (int32_t edge : path)
    flow = std::min(flow, edges[edge].capacity);
  for (int32_t edge : path) {
    edges[edge].capacity -= flow;
    edges[edge ^ 1].capacity += flow;
  }
  return flow;
}

std::vector<bool> MinCut::findSourceSide() {
  while (findLevels()) {
    next.assign(edgesOf.size(), 0);
    while (augment() > 0) {
    }
  }
  std::vector<bool> side;
  for (int32_t level : levels)
    side.push_back(level >= 0);
  return side;
}
