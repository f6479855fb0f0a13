//===- StructuredTest.cpp - Chains, trees and repeated layers -------------===//
//
// Large instances that decompose are solved to proven optimality in under a
// second each.
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "heddle/Solver/Solve.h"

#include <algorithm>
#include <ctime>
#include <gtest/gtest.h>
#include <random>

namespace heddle::solver {
namespace {

void expectProvenQuickly(const Problem &P, const std::string &Name) {
  SolveOptions O;
  O.Threads = 1;
  O.TimeoutSeconds = 60;
  std::clock_t Start = std::clock(); // processor time: the machine may be busy
  auto S = solve(P, O);
  double Took = double(std::clock() - Start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(bool(S)) << Name;
  EXPECT_EQ(S->Why, StopReason::Optimal)
      << Name << ": cost " << S->Total << ", bound " << S->LowerBound;
  EXPECT_LT(Took, test::slowdown()) << Name;
}

/// The limit at a fraction of the way from the least to the largest peak.
void limitMemory(Problem &P, double Fraction) {
  Assignment Least, Most;
  for (const Node &N : P.Nodes) {
    auto [Low, High] = std::ranges::minmax_element(N.Usages);
    Least.push_back(Low - N.Usages.begin());
    Most.push_back(High - N.Usages.begin());
  }
  auto Low = static_cast<double>(evaluate(P, Least)->PeakUsage);
  auto High = static_cast<double>(evaluate(P, Most)->PeakUsage);
  P.UsageLimit = static_cast<Usage>(Low + Fraction * (High - Low));
}

class Generator {
public:
  explicit Generator(uint64_t Seed) : R(Seed) {}

  /// Strategies that shard more use less and cost more.
  Node node(Interval Live, size_t Strategies) {
    Node N;
    N.Live = Live;
    auto Size = static_cast<double>(1000 + R() % 9000);
    for (size_t S = 0; S < Strategies; ++S) {
      double Shards = static_cast<double>(1 << (S % 5));
      N.Usages.push_back(static_cast<Usage>(Size * 16 / Shards));
      N.Costs.push_back(static_cast<Cost>(Size * Shards) + R() % 500);
    }
    return N;
  }
  Edge edge(const Problem &P, uint32_t A, uint32_t B) {
    Edge E{{A, B}, {}};
    for (size_t I = 0; I < P.Nodes[A].Costs.size(); ++I)
      for (size_t J = 0; J < P.Nodes[B].Costs.size(); ++J)
        E.Costs.push_back(I == J ? 0 : 1000 + R() % 20000);
    return E;
  }
  std::mt19937_64 R;
};

/// Forward and backward of a stack of layers: what layer i keeps is live until
/// its backward.
Interval activations(int64_t Layer, int64_t Layers) {
  return {Layer, 2 * Layers - Layer};
}

TEST(Structured, ChainsWithoutMemory) {
  for (int64_t Length : {10, 1000, 20000}) {
    Generator G(Length);
    Problem P;
    for (int64_t I = 0; I < Length; ++I) {
      P.Nodes.push_back(G.node({I, I + 1}, 2 + I % 9));
      if (I)
        P.Edges.push_back(G.edge(P, I - 1, I));
    }
    expectProvenQuickly(P, "chain of " + std::to_string(Length));
  }
}

TEST(Structured, TreesWithoutMemory) {
  Generator G(7);
  Problem P;
  for (uint32_t I = 0; I < 5000; ++I) {
    P.Nodes.push_back(G.node({0, 1}, 2 + I % 7));
    if (I)
      P.Edges.push_back(G.edge(P, G.R() % I, I));
  }
  expectProvenQuickly(P, "random tree of 5000");
}

TEST(Structured, ChainsUnderMemory) {
  for (int64_t Length : {20, 100, 300})
    for (double Fraction : {0.1, 0.5}) {
      Generator G(Length);
      Problem P;
      for (int64_t I = 0; I < Length; ++I) {
        P.Nodes.push_back(G.node(activations(I, Length), 5));
        if (I)
          P.Edges.push_back(G.edge(P, I - 1, I));
      }
      limitMemory(P, Fraction);
      expectProvenQuickly(P, "chain of " + std::to_string(Length) +
                                 " with limit " + std::to_string(Fraction));
    }
}

TEST(Structured, TreesUnderMemory) {
  for (uint32_t Size : {200, 1000})
    for (double Fraction : {0.2, 0.5}) {
      Generator G(11);
      Problem P;
      for (uint32_t I = 0; I < Size; ++I) {
        P.Nodes.push_back(G.node({0, 1}, 4));
        if (I)
          P.Edges.push_back(G.edge(P, G.R() % I, I));
      }
      limitMemory(P, Fraction);
      expectProvenQuickly(P, "random tree of " + std::to_string(Size) +
                                 " with limit " + std::to_string(Fraction));
    }
}

/// Layers of six nodes with a residual connection, of a number of kinds in
/// turn.
Problem repeatedLayers(int64_t Layers, int64_t Kinds) {
  Problem P;
  for (int64_t L = 0; L < Layers; ++L) {
    Generator G(1 + L % Kinds); // the same layer every time
    auto First = static_cast<uint32_t>(P.Nodes.size());
    for (int I = 0; I < 6; ++I)
      P.Nodes.push_back(G.node(activations(L, Layers), 4));
    auto Join = [&](uint32_t A, uint32_t B) {
      P.Edges.push_back(G.edge(P, A, B));
    };
    for (uint32_t I = 0; I < 5; ++I)
      Join(First + I, First + I + 1);
    Join(First, First + 3);
    Join(First + 3, First + 5);
    if (L)
      Join(First - 1, First);
  }
  return P;
}

TEST(Structured, RepeatedLayersWithoutMemory) {
  for (int64_t Layers : {10, 100, 1000})
    expectProvenQuickly(repeatedLayers(Layers, 1),
                        std::to_string(Layers) + " layers");
}

TEST(Structured, RepeatedLayersUnderMemory) {
  for (int64_t Layers : {10, 50, 300, 1000})
    for (double Fraction : {0.1, 0.3, 0.5, 0.8}) {
      Problem P = repeatedLayers(Layers, 1);
      limitMemory(P, Fraction);
      expectProvenQuickly(P, std::to_string(Layers) + " layers with limit " +
                                 std::to_string(Fraction));
    }
}

/// Nothing repeats, or only every fourth layer does.
TEST(Structured, DifferentLayersUnderMemory) {
  for (int64_t Kinds : {4, 100})
    for (double Fraction : {0.1, 0.5}) {
      Problem P = repeatedLayers(100, Kinds);
      limitMemory(P, Fraction);
      expectProvenQuickly(P, std::to_string(Kinds) +
                                 " kinds of layers with limit " +
                                 std::to_string(Fraction));
    }
}

/// Dense blocks of nodes under a limit each, alike or not: together their gaps
/// would hide each other, and alike ones are one problem.
Problem blocks(int64_t Count, uint32_t Size, bool Alike) {
  Problem P;
  for (int64_t B = 0; B < Count; ++B) {
    Generator G(Alike ? 1 : B);
    auto First = static_cast<uint32_t>(P.Nodes.size());
    for (uint32_t I = 0; I < Size; ++I) {
      P.Nodes.push_back(G.node({B, B + 1}, 5));
      for (uint32_t J = 0; J < I; ++J)
        if (J + 1 == I || G.R() % 3 == 0)
          P.Edges.push_back(G.edge(P, First + J, First + I));
    }
  }
  limitMemory(P, 0.3);
  return P;
}

TEST(Structured, BlocksThatDoNotMeet) {
  expectProvenQuickly(blocks(1000, 14, true), "1000 alike blocks");
  expectProvenQuickly(blocks(100, 10, false), "100 different blocks");
}

/// The optimum of a chain whose nodes are all live at once, by a table over
/// everything that they may use together.
Cost optimumOfChain(const Problem &P) {
  auto Limit = static_cast<size_t>(*P.UsageLimit);
  std::vector<std::vector<Cost>> Least; // by strategy, then usage
  for (size_t I = 0; I < P.Nodes.size(); ++I) {
    const Node &N = P.Nodes[I];
    std::vector<std::vector<Cost>> Next(
        N.Costs.size(), std::vector<Cost>(Limit + 1, InfiniteCost));
    for (size_t S = 0; S < N.Costs.size(); ++S)
      for (size_t U = N.Usages[S]; U <= Limit; ++U) {
        size_t Before = U - N.Usages[S];
        Cost From = I || Before ? InfiniteCost : 0;
        for (size_t T = 0; T < Least.size(); ++T)
          From = std::min(
              From, addCosts(Least[T][Before],
                             P.Edges[I - 1].Costs[T * N.Costs.size() + S]));
        Next[S][U] = addCosts(From, N.Costs[S]);
      }
    Least = std::move(Next);
  }
  Cost Best = InfiniteCost;
  for (const auto &Row : Least)
    Best = std::min(Best, *std::ranges::min_element(Row));
  return Best;
}

/// Small numbers make many ties, alike nodes make long runs of equal steps.
TEST(Structured, ChainsOfAlikeNodesAgreeWithATable) {
  std::mt19937_64 R(3);
  for (int Instance = 0; Instance < 300; ++Instance) {
    uint64_t Length = 1 + R() % 60, Kinds = 1 + R() % 3, Scale = 1 + R() % 30;
    std::vector<Node> NodeOf;
    std::vector<Edge> EdgeOf;
    for (uint64_t K = 0; K < Kinds; ++K) {
      Node N{{0, 1}, {}, {}};
      Edge E;
      for (int S = 0; S < 3; ++S) {
        N.Costs.push_back(R() % (10 * Scale));
        N.Usages.push_back(R() % 10);
        for (int T = 0; T < 3; ++T)
          E.Costs.push_back(R() % 10 ? R() % (4 * Scale) : InfiniteCost);
      }
      NodeOf.push_back(N);
      EdgeOf.push_back(E);
    }
    Problem P;
    for (uint32_t I = 0; I < Length; ++I) {
      P.Nodes.push_back(NodeOf[I % Kinds]);
      if (I) {
        P.Edges.push_back(EdgeOf[I % Kinds]);
        P.Edges.back().Nodes = {I - 1, I};
      }
    }
    P.UsageLimit = R() % (6 * Length);
    Cost Expected = optimumOfChain(P);
    SolveOptions O;
    O.Threads = 1;
    auto S = solve(P, O);
    ASSERT_TRUE(bool(S));
    EXPECT_EQ(S->Total, Expected) << "instance " << Instance;
    EXPECT_EQ(S->LowerBound, Expected) << "instance " << Instance;
  }
}

} // namespace
} // namespace heddle::solver
