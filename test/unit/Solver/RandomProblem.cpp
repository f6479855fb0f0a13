//===- RandomProblem.cpp - Small instances of every shape -----------------===//

#include "RandomProblem.h"

#include <algorithm>

namespace heddle::solver::test {

namespace {

class Builder {
public:
  Builder(std::mt19937_64 &r, double maxAssignments)
      : r(r), maxAssignments(maxAssignments) {}

  Problem build() {
    p.name = "random";
    costScale =
        std::vector<Cost>{3, 100, 1000000, 200'000'000'000'000'000}[below(4)];
    infinitePercent = std::vector<uint64_t>{0, 5, 30, 60}[below(4)];
    addNodes();
    addGraph();
    addOddEdges();
    setLimit();
    return std::move(p);
  }

private:
  uint64_t below(uint64_t count) { return r() % count; }

  Cost cost() {
    if (below(100) < infinitePercent)
      return below(2) ? kInfiniteCost : kInfiniteCost + Cost(below(1000));
    return Cost(below(costScale));
  }

  void addNodes() {
    size_t count = 1 + below(12);
    size_t maxStrategies = 1 + below(6);
    uint64_t span = 1 + below(20);
    double assignments = 1;
    for (size_t i = 0; i < count; ++i) {
      size_t strategies = 1 + below(maxStrategies);
      while (strategies > 1 && assignments * strategies > maxAssignments)
        --strategies;
      assignments *= strategies;
      Node n;
      n.live.begin = below(span);
      n.live.end = n.live.begin + below(span);
      for (size_t s = 0; s < strategies; ++s) {
        // Strategies of a node are rarely forbidden (infinite).
        n.costs.push_back(below(8) ? Cost(below(costScale)) : cost());
        n.usages.push_back(below(3) ? below(20) : 0);
      }
      p.nodes.push_back(std::move(n));
    }
  }

  void addEdge(std::vector<uint32_t> nodes) {
    Edge e{std::move(nodes), {}};
    size_t entries = 1;
    for (uint32_t n : e.nodes)
      entries *= p.nodes[n].costs.size();
    bool matching = e.nodes.size() == 2 && below(4) == 0;
    for (size_t i = 0; i < entries; ++i)
      e.costs.push_back(cost());
    if (matching) // equal strategies or nothing
      for (size_t i = 0; i < entries; ++i) {
        size_t width = p.nodes[e.nodes[1]].costs.size();
        if (i / width != i % width)
          e.costs[i] = kInfiniteCost;
      }
    p.edges.push_back(std::move(e));
  }

  void addGraph() {
    auto count = static_cast<uint32_t>(p.nodes.size());
    uint64_t shape = below(7);
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t j = 0; j < i; ++j) {
        bool joined = false;
        switch (shape) {
        case 0: // chain
          joined = j + 1 == i;
          break;
        case 1: // tree
          joined = j == (i - 1) / 2;
          break;
        case 2: // cycle
          joined = j + 1 == i || (j == 0 && i + 1 == count);
          break;
        case 3: // star
          joined = j == 0;
          break;
        case 4: // grid of width 3
          joined = j + 3 == i || (j + 1 == i && i % 3 != 0);
          break;
        case 5: // random
          joined = below(3) == 0;
          break;
        case 6: // complete
          joined = true;
          break;
        }
        if (!joined || below(20) == 0)
          continue;
        do {
          if (below(2))
            addEdge({i, j});
          else
            addEdge({j, i});
        } while (below(5) == 0);
      }
  }

  void addOddEdges() {
    auto count = static_cast<uint32_t>(p.nodes.size());
    if (below(3))
      return;
    auto any = [&] { return static_cast<uint32_t>(below(count)); };
    addEdge({any()});
    addEdge({any(), any()}); // sometimes a loop
    addEdge({any(), any(), any()});
  }

  /// Sets the limit to a number between the least and the largest peak, or
  /// leaves it open.
  void setLimit() {
    if (below(5) == 0)
      return;
    Assignment least(p.nodes.size()), most(p.nodes.size());
    for (size_t i = 0; i < p.nodes.size(); ++i) {
      const auto &u = p.nodes[i].usages;
      least[i] = std::ranges::min_element(u) - u.begin();
      most[i] = std::ranges::max_element(u) - u.begin();
    }
    Usage low = evaluate(p, least)->peakUsage;
    Usage high = evaluate(p, most)->peakUsage;
    double tightness =
        std::vector<double>{-0.05, 0.02, 0.1, 0.3, 0.8}[below(5)];
    p.usageLimit =
        std::max<Usage>(0, low + Usage(tightness * double(high - low)));
  }

  std::mt19937_64 &r;
  double maxAssignments;
  Problem p;
  Cost costScale = 1;
  uint64_t infinitePercent = 0;
};

} // namespace

Problem randomProblem(std::mt19937_64 &r, double maxAssignments) {
  return Builder(r, maxAssignments).build();
}

std::optional<Cost> bruteForce(const Problem &p) {
  // Computes usage and costs by hand, because `evaluate` would be slow on every
  // assignment. `evaluate` only confirms the best one.
  size_t count = p.nodes.size();
  int64_t end = 0;
  for (const Node &n : p.nodes)
    end = std::max(end, n.live.end);
  std::optional<Cost> best;
  Assignment a(count, 0), bestA;
  while (true) {
    Cost total = 0;
    for (size_t i = 0; i < count; ++i)
      total = addCosts(total, std::min(p.nodes[i].costs[a[i]], kInfiniteCost));
    for (const Edge &e : p.edges) {
      size_t entry = 0;
      for (uint32_t n : e.nodes)
        entry = entry * p.nodes[n].costs.size() + a[n];
      total = addCosts(total, std::min(e.costs[entry], kInfiniteCost));
    }
    if (total < kInfiniteCost && (!best || total < *best)) {
      bool fits = true;
      for (int64_t t = 0; t < end && p.usageLimit && fits; ++t) {
        Usage sum = 0;
        for (size_t i = 0; i < count; ++i)
          if (p.nodes[i].live.begin <= t && t < p.nodes[i].live.end)
            sum += p.nodes[i].usages[a[i]];
        fits = sum <= *p.usageLimit;
      }
      if (fits) {
        best = total;
        bestA = a;
      }
    }
    size_t i = 0;
    while (i < count && ++a[i] == static_cast<int32_t>(p.nodes[i].costs.size()))
      a[i++] = 0;
    if (i == count)
      return best;
  }
}

} // namespace heddle::solver::test
