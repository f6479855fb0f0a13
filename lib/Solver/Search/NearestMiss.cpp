//===- NearestMiss.cpp - Where and why nothing fits -----------------------===//

#include "Search/NearestMiss.h"

#include <algorithm>

namespace heddle::solver {

NearestMiss nearestMiss(const Problem &P, Assignment A) {
  NearestMiss Miss;
  auto Value = evaluate(P, A);
  if (Value && P.UsageLimit && Value->PeakUsage > *P.UsageLimit) {
    Miss.Time = Value->PeakTime;
    Miss.Excess = Value->PeakUsage - *P.UsageLimit;
    for (uint32_t N = 0; N < P.Nodes.size(); ++N)
      if (P.Nodes[N].Live.Begin <= Miss.Time && Miss.Time < P.Nodes[N].Live.End)
        Miss.Nodes.push_back(N);
    std::ranges::sort(Miss.Nodes, [&](uint32_t L, uint32_t R) {
      Usage OfL = P.Nodes[L].Usages[A[L]], OfR = P.Nodes[R].Usages[A[R]];
      return OfL != OfR ? OfL > OfR : L < R;
    });
    if (Miss.Nodes.size() > 10)
      Miss.Nodes.resize(10);
  }
  Miss.Strategies = std::move(A);
  return Miss;
}

Assignment leastUsage(const Problem &P) {
  Assignment A;
  for (const Node &N : P.Nodes) {
    int32_t Least = 0;
    for (size_t S = 1; S < N.Costs.size(); ++S)
      if (std::pair(N.Usages[S], N.Costs[S]) <
          std::pair(N.Usages[Least], N.Costs[Least]))
        Least = static_cast<int32_t>(S);
    A.push_back(Least);
  }
  return A;
}

} // namespace heddle::solver
