//===- EliminationOrder.cpp - The order of elimination --------------------===//

#include "Bound/EliminationOrder.h"

#include <algorithm>
#include <queue>

namespace heddle::solver {

namespace {

/// The graph of the candidates that are not yet eliminated, by their positions
/// in the list of candidates.
class Graph {
public:
  Graph(const Model &m, const std::vector<int32_t> &candidates)
      : adjacent(candidates.size()), present(candidates.size(), 1) {
    std::vector<int32_t> number(m.vars.size(), -1);
    for (size_t i = 0; i < candidates.size(); ++i) {
      number[candidates[i]] = static_cast<int32_t>(i);
      sizes.push_back(m.vars[candidates[i]].size());
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      for (int32_t id : m.vars[candidates[i]].pairs) {
        int32_t other = number[m.pairs[id].other(candidates[i])];
        if (other >= 0)
          adjacent[i].push_back(other);
      }
      std::ranges::sort(adjacent[i]);
    }
  }

  bool isPresent(int32_t i) const { return present[i]; }
  const std::vector<int32_t> &getNeighbors(int32_t i) const {
    return adjacent[i];
  }
  double tableSize(int32_t i) const {
    double product = sizes[i];
    for (int32_t n : adjacent[i])
      product *= sizes[n];
    return product;
  }

  /// Removes a candidate without connecting its neighbours.
  void remove(int32_t i) {
    present[i] = 0;
    for (int32_t n : adjacent[i])
      adjacent[n].erase(std::ranges::lower_bound(adjacent[n], i));
  }

  /// Removes a candidate and connects its neighbours with each other.
  void eliminate(int32_t i) {
    remove(i);
    for (int32_t n : adjacent[i]) {
      joined.clear();
      std::ranges::set_union(adjacent[n], adjacent[i],
                             std::back_inserter(joined));
      joined.erase(std::ranges::lower_bound(joined, n));
      adjacent[n] = joined;
    }
  }

private:
  std::vector<std::vector<int32_t>> adjacent; ///< Sorted.
  std::vector<char> present;
  std::vector<double> sizes;
  std::vector<int32_t> joined;
};

/// The neighbour of `i` with the most neighbours, at random among similar ones;
/// `i` if it has no neighbour.
int32_t busiest(const Graph &g, int32_t i, Random &r) {
  int32_t result = i;
  double best = -1;
  for (int32_t n : g.getNeighbors(i)) {
    double score =
        static_cast<double>(g.getNeighbors(n).size()) * (0.3 + r.unit());
    if (score > best) {
      best = score;
      result = n;
    }
  }
  return result;
}

} // namespace

EliminationOrder chooseOrder(const Model &m,
                             const std::vector<int32_t> &candidates,
                             double maxTable, double maxTotal, Random &r) {
  EliminationOrder result;
  Graph g(m, candidates);
  using Entry = std::pair<double, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<double> key(candidates.size());
  auto push = [&](int32_t i) { queue.push({key[i] = g.tableSize(i), i}); };
  for (size_t i = 0; i < candidates.size(); ++i)
    push(static_cast<int32_t>(i));
  std::vector<char> leftOut(m.vars.size(), 0);
  while (!queue.empty()) {
    auto [size, i] = queue.top();
    queue.pop();
    if (!g.isPresent(i) || key[i] != size)
      continue;
    if (size > maxTable || result.total + size > maxTotal) {
      int32_t out = busiest(g, i, r);
      g.remove(out);
      leftOut[candidates[out]] = 1;
      for (int32_t n : g.getNeighbors(out))
        push(n);
      continue;
    }
    result.total += size;
    g.eliminate(i);
    result.vars.push_back(candidates[i]);
    auto &separator = result.separators.emplace_back();
    for (int32_t n : g.getNeighbors(i)) {
      separator.push_back(candidates[n]);
      push(n);
    }
  }
  // Separators may name variables that were left out afterwards.
  for (auto &separator : result.separators)
    std::erase_if(separator, [&](int32_t v) { return leftOut[v]; });
  return result;
}

} // namespace heddle::solver
