//===- StructuredTest.cpp - Chains, trees and repeated layers -------------===//
//
// Expects that large instances which decompose are solved to proven optimality
// with little work, which takes a core less than a second.
//
//===----------------------------------------------------------------------===//

#include "heddle/Solver/Solve.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace heddle::solver {
namespace {

/// The most table entries that a proof may visit. The hardest instance here
/// needs 6e7.
constexpr uint64_t kMaxWork = 100'000'000;

void expectProvenQuickly(const Problem &p, const std::string &name) {
  SolveOptions o;
  o.threads = 1;
  o.timeoutSeconds = 1e6;
  o.workLimit = kMaxWork;
  auto s = solve(p, o);
  ASSERT_TRUE(bool(s)) << name;
  EXPECT_EQ(s->why, StopReason::Optimal)
      << name << ": cost " << s->total << ", bound " << s->lowerBound;
}

/// Sets the limit at a fraction of the way from the least to the largest peak.
void limitMemory(Problem &p, double fraction) {
  Assignment least, most;
  for (const Node &n : p.nodes) {
    auto [low, high] = std::ranges::minmax_element(n.usages);
    least.push_back(low - n.usages.begin());
    most.push_back(high - n.usages.begin());
  }
  auto low = static_cast<double>(evaluate(p, least)->peakUsage);
  auto high = static_cast<double>(evaluate(p, most)->peakUsage);
  p.usageLimit = static_cast<Usage>(low + fraction * (high - low));
}

class Generator {
public:
  explicit Generator(uint64_t seed) : r(seed) {}

  /// Returns a node whose strategies use less memory and cost more the more
  /// they shard.
  Node node(Interval live, size_t strategies) {
    Node n;
    n.live = live;
    auto size = static_cast<double>(1000 + r() % 9000);
    for (size_t s = 0; s < strategies; ++s) {
      double shards = static_cast<double>(1 << (s % 5));
      n.usages.push_back(static_cast<Usage>(size * 16 / shards));
      n.costs.push_back(static_cast<Cost>(size * shards) + r() % 500);
    }
    return n;
  }
  Edge edge(const Problem &p, uint32_t a, uint32_t b) {
    Edge e{{a, b}, {}};
    for (size_t i = 0; i < p.nodes[a].costs.size(); ++i)
      for (size_t j = 0; j < p.nodes[b].costs.size(); ++j)
        e.costs.push_back(i == j ? 0 : 1000 + r() % 20000);
    return e;
  }
  std::mt19937_64 r;
};

/// Returns the interval in which a layer's activations are live in a forward
/// and a backward pass over all layers: from its forward to its backward.
Interval activations(int64_t layer, int64_t layers) {
  return {layer, 2 * layers - layer};
}

TEST(Structured, ChainsWithoutMemory) {
  for (int64_t length : {10, 1000, 20000}) {
    Generator g(length);
    Problem p;
    for (int64_t i = 0; i < length; ++i) {
      p.nodes.push_back(g.node({i, i + 1}, 2 + i % 9));
      if (i)
        p.edges.push_back(g.edge(p, i - 1, i));
    }
    expectProvenQuickly(p, "chain of " + std::to_string(length));
  }
}

TEST(Structured, TreesWithoutMemory) {
  Generator g(7);
  Problem p;
  for (uint32_t i = 0; i < 5000; ++i) {
    p.nodes.push_back(g.node({0, 1}, 2 + i % 7));
    if (i)
      p.edges.push_back(g.edge(p, g.r() % i, i));
  }
  expectProvenQuickly(p, "random tree of 5000");
}

TEST(Structured, ChainsUnderMemory) {
  for (int64_t length : {20, 100, 300})
    for (double fraction : {0.1, 0.5}) {
      Generator g(length);
      Problem p;
      for (int64_t i = 0; i < length; ++i) {
        p.nodes.push_back(g.node(activations(i, length), 5));
        if (i)
          p.edges.push_back(g.edge(p, i - 1, i));
      }
      limitMemory(p, fraction);
      expectProvenQuickly(p, "chain of " + std::to_string(length) +
                                 " with limit " + std::to_string(fraction));
    }
}

TEST(Structured, TreesUnderMemory) {
  for (uint32_t size : {200, 1000})
    for (double fraction : {0.2, 0.5}) {
      Generator g(11);
      Problem p;
      for (uint32_t i = 0; i < size; ++i) {
        p.nodes.push_back(g.node({0, 1}, 4));
        if (i)
          p.edges.push_back(g.edge(p, g.r() % i, i));
      }
      limitMemory(p, fraction);
      expectProvenQuickly(p, "random tree of " + std::to_string(size) +
                                 " with limit " + std::to_string(fraction));
    }
}

/// Returns layers of six nodes with a residual connection. Kinds of layers
/// alternate: layer l is of kind l % kinds.
Problem repeatedLayers(int64_t layers, int64_t kinds) {
  Problem p;
  for (int64_t l = 0; l < layers; ++l) {
    Generator g(1 + l % kinds); // the same layer for the same kind
    auto first = static_cast<uint32_t>(p.nodes.size());
    for (int i = 0; i < 6; ++i)
      p.nodes.push_back(g.node(activations(l, layers), 4));
    auto join = [&](uint32_t a, uint32_t b) {
      p.edges.push_back(g.edge(p, a, b));
    };
    for (uint32_t i = 0; i < 5; ++i)
      join(first + i, first + i + 1);
    join(first, first + 3);
    join(first + 3, first + 5);
    if (l)
      join(first - 1, first);
  }
  return p;
}

TEST(Structured, RepeatedLayersWithoutMemory) {
  for (int64_t layers : {10, 100, 1000})
    expectProvenQuickly(repeatedLayers(layers, 1),
                        std::to_string(layers) + " layers");
}

TEST(Structured, RepeatedLayersUnderMemory) {
  for (int64_t layers : {10, 50, 300, 1000})
    for (double fraction : {0.1, 0.3, 0.5, 0.8}) {
      Problem p = repeatedLayers(layers, 1);
      limitMemory(p, fraction);
      expectProvenQuickly(p, std::to_string(layers) + " layers with limit " +
                                 std::to_string(fraction));
    }
}

/// No two layers are alike, or every fourth one is.
TEST(Structured, DifferentLayersUnderMemory) {
  for (int64_t kinds : {4, 100})
    for (double fraction : {0.1, 0.5}) {
      Problem p = repeatedLayers(100, kinds);
      limitMemory(p, fraction);
      expectProvenQuickly(p, std::to_string(kinds) +
                                 " kinds of layers with limit " +
                                 std::to_string(fraction));
    }
}

/// Returns blocks of densely joined nodes that live at different times, so each
/// has the memory limit for itself. If `alike`, all blocks are equal. A solver
/// must prove each block alone, because the gaps of their bounds add up.
Problem blocks(int64_t count, uint32_t size, bool alike) {
  Problem p;
  for (int64_t b = 0; b < count; ++b) {
    Generator g(alike ? 1 : b);
    auto first = static_cast<uint32_t>(p.nodes.size());
    for (uint32_t i = 0; i < size; ++i) {
      p.nodes.push_back(g.node({b, b + 1}, 5));
      for (uint32_t j = 0; j < i; ++j)
        if (j + 1 == i || g.r() % 3 == 0)
          p.edges.push_back(g.edge(p, first + j, first + i));
    }
  }
  limitMemory(p, 0.3);
  return p;
}

TEST(Structured, BlocksThatDoNotMeet) {
  expectProvenQuickly(blocks(1000, 14, true), "1000 alike blocks");
  expectProvenQuickly(blocks(100, 10, false), "100 different blocks");
}

/// Returns the optimum of a chain whose nodes are all live at once, by dynamic
/// programming over the memory used so far.
Cost optimumOfChain(const Problem &p) {
  auto limit = static_cast<size_t>(*p.usageLimit);
  std::vector<std::vector<Cost>> least; // [strategy of the last node][usage]
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const Node &n = p.nodes[i];
    std::vector<std::vector<Cost>> next(
        n.costs.size(), std::vector<Cost>(limit + 1, kInfiniteCost));
    for (size_t s = 0; s < n.costs.size(); ++s)
      for (size_t u = n.usages[s]; u <= limit; ++u) {
        size_t before = u - n.usages[s];
        Cost from = i || before ? kInfiniteCost : 0;
        for (size_t t = 0; t < least.size(); ++t)
          from = std::min(
              from, addCosts(least[t][before],
                             p.edges[i - 1].costs[t * n.costs.size() + s]));
        next[s][u] = addCosts(from, n.costs[s]);
      }
    least = std::move(next);
  }
  Cost best = kInfiniteCost;
  for (const auto &row : least)
    best = std::min(best, *std::ranges::min_element(row));
  return best;
}

/// Small numbers make many ties; alike nodes make long runs of equal steps.
TEST(Structured, ChainsOfAlikeNodesAgreeWithATable) {
  std::mt19937_64 r(3);
  for (int instance = 0; instance < 300; ++instance) {
    uint64_t length = 1 + r() % 60, kinds = 1 + r() % 3, scale = 1 + r() % 30;
    std::vector<Node> nodeOf;
    std::vector<Edge> edgeOf;
    for (uint64_t k = 0; k < kinds; ++k) {
      Node n{{0, 1}, {}, {}};
      Edge e;
      for (int s = 0; s < 3; ++s) {
        n.costs.push_back(r() % (10 * scale));
        n.usages.push_back(r() % 10);
        for (int t = 0; t < 3; ++t)
          e.costs.push_back(r() % 10 ? r() % (4 * scale) : kInfiniteCost);
      }
      nodeOf.push_back(n);
      edgeOf.push_back(e);
    }
    Problem p;
    for (uint32_t i = 0; i < length; ++i) {
      p.nodes.push_back(nodeOf[i % kinds]);
      if (i) {
        p.edges.push_back(edgeOf[i % kinds]);
        p.edges.back().nodes = {i - 1, i};
      }
    }
    p.usageLimit = r() % (6 * length);
    Cost expected = optimumOfChain(p);
    SolveOptions o;
    o.threads = 1;
    auto s = solve(p, o);
    ASSERT_TRUE(bool(s));
    EXPECT_EQ(s->total, expected) << "instance " << instance;
    EXPECT_EQ(s->lowerBound, expected) << "instance " << instance;
  }
}

} // namespace
} // namespace heddle::solver
