//===- RandomProblem.cpp - Small instances of every shape -----------------===//

#include "RandomProblem.h"

#include <algorithm>

namespace heddle::solver::test {

namespace {

class Builder {
public:
  Builder(std::mt19937_64 &R, double MaxAssignments)
      : R(R), MaxAssignments(MaxAssignments) {}

  Problem build() {
    P.Name = "random";
    CostScale =
        std::vector<Cost>{3, 100, 1000000, 200'000'000'000'000'000}[below(4)];
    InfinitePercent = std::vector<uint64_t>{0, 5, 30, 60}[below(4)];
    addNodes();
    addGraph();
    addOddEdges();
    setLimit();
    return std::move(P);
  }

private:
  uint64_t below(uint64_t Count) { return R() % Count; }

  Cost cost() {
    if (below(100) < InfinitePercent)
      return below(2) ? InfiniteCost : InfiniteCost + Cost(below(1000));
    return Cost(below(CostScale));
  }

  void addNodes() {
    size_t Count = 1 + below(12);
    size_t MaxStrategies = 1 + below(6);
    uint64_t Span = 1 + below(20);
    double Assignments = 1;
    for (size_t I = 0; I < Count; ++I) {
      size_t Strategies = 1 + below(MaxStrategies);
      while (Strategies > 1 && Assignments * Strategies > MaxAssignments)
        --Strategies;
      Assignments *= Strategies;
      Node N;
      N.Live.Begin = below(Span);
      N.Live.End = N.Live.Begin + below(Span);
      for (size_t S = 0; S < Strategies; ++S) {
        // A node of its own is forbidden only sometimes.
        N.Costs.push_back(below(8) ? Cost(below(CostScale)) : cost());
        N.Usages.push_back(below(3) ? below(20) : 0);
      }
      P.Nodes.push_back(std::move(N));
    }
  }

  void addEdge(std::vector<uint32_t> Nodes) {
    Edge E{std::move(Nodes), {}};
    size_t Entries = 1;
    for (uint32_t N : E.Nodes)
      Entries *= P.Nodes[N].Costs.size();
    bool Matching = E.Nodes.size() == 2 && below(4) == 0;
    for (size_t I = 0; I < Entries; ++I)
      E.Costs.push_back(cost());
    if (Matching) // equal strategies or nothing
      for (size_t I = 0; I < Entries; ++I) {
        size_t Width = P.Nodes[E.Nodes[1]].Costs.size();
        if (I / Width != I % Width)
          E.Costs[I] = InfiniteCost;
      }
    P.Edges.push_back(std::move(E));
  }

  void addGraph() {
    auto Count = static_cast<uint32_t>(P.Nodes.size());
    uint64_t Shape = below(7);
    for (uint32_t I = 0; I < Count; ++I)
      for (uint32_t J = 0; J < I; ++J) {
        bool Joined = false;
        switch (Shape) {
        case 0: // chain
          Joined = J + 1 == I;
          break;
        case 1: // tree
          Joined = J == (I - 1) / 2;
          break;
        case 2: // cycle
          Joined = J + 1 == I || (J == 0 && I + 1 == Count);
          break;
        case 3: // star
          Joined = J == 0;
          break;
        case 4: // grid of width 3
          Joined = J + 3 == I || (J + 1 == I && I % 3 != 0);
          break;
        case 5: // random
          Joined = below(3) == 0;
          break;
        case 6: // complete
          Joined = true;
          break;
        }
        if (!Joined || below(20) == 0)
          continue;
        do {
          if (below(2))
            addEdge({I, J});
          else
            addEdge({J, I});
        } while (below(5) == 0);
      }
  }

  void addOddEdges() {
    auto Count = static_cast<uint32_t>(P.Nodes.size());
    if (below(3))
      return;
    auto Any = [&] { return static_cast<uint32_t>(below(Count)); };
    addEdge({Any()});
    addEdge({Any(), Any()}); // sometimes a loop
    addEdge({Any(), Any(), Any()});
  }

  /// Somewhere between the least and the largest possible peak.
  void setLimit() {
    if (below(5) == 0)
      return;
    Assignment Least(P.Nodes.size()), Most(P.Nodes.size());
    for (size_t I = 0; I < P.Nodes.size(); ++I) {
      const auto &U = P.Nodes[I].Usages;
      Least[I] = std::ranges::min_element(U) - U.begin();
      Most[I] = std::ranges::max_element(U) - U.begin();
    }
    Usage Low = evaluate(P, Least)->PeakUsage;
    Usage High = evaluate(P, Most)->PeakUsage;
    double Tightness =
        std::vector<double>{-0.05, 0.02, 0.1, 0.3, 0.8}[below(5)];
    P.UsageLimit =
        std::max<Usage>(0, Low + Usage(Tightness * double(High - Low)));
  }

  std::mt19937_64 &R;
  double MaxAssignments;
  Problem P;
  Cost CostScale = 1;
  uint64_t InfinitePercent = 0;
};

} // namespace

Problem randomProblem(std::mt19937_64 &R, double MaxAssignments) {
  return Builder(R, MaxAssignments).build();
}

std::optional<Cost> bruteForce(const Problem &P) {
  // Usage steps and costs by hand: `evaluate` on every assignment would be
  // slow, so it confirms the result only.
  size_t Count = P.Nodes.size();
  int64_t End = 0;
  for (const Node &N : P.Nodes)
    End = std::max(End, N.Live.End);
  std::optional<Cost> Best;
  Assignment A(Count, 0), BestA;
  while (true) {
    Cost Total = 0;
    for (size_t I = 0; I < Count; ++I)
      Total = addCosts(Total, std::min(P.Nodes[I].Costs[A[I]], InfiniteCost));
    for (const Edge &E : P.Edges) {
      size_t Entry = 0;
      for (uint32_t N : E.Nodes)
        Entry = Entry * P.Nodes[N].Costs.size() + A[N];
      Total = addCosts(Total, std::min(E.Costs[Entry], InfiniteCost));
    }
    if (Total < InfiniteCost && (!Best || Total < *Best)) {
      bool Fits = true;
      for (int64_t T = 0; T < End && P.UsageLimit && Fits; ++T) {
        Usage Sum = 0;
        for (size_t I = 0; I < Count; ++I)
          if (P.Nodes[I].Live.Begin <= T && T < P.Nodes[I].Live.End)
            Sum += P.Nodes[I].Usages[A[I]];
        Fits = Sum <= *P.UsageLimit;
      }
      if (Fits) {
        Best = Total;
        BestA = A;
      }
    }
    size_t I = 0;
    while (I < Count && ++A[I] == static_cast<int32_t>(P.Nodes[I].Costs.size()))
      A[I++] = 0;
    if (I == Count)
      return Best;
  }
}

} // namespace heddle::solver::test
