//===- NearestMiss.cpp - The largest excess of the limit ------------------===//

#include "Search/NearestMiss.h"

#include <algorithm>

namespace heddle::solver {

NearestMiss nearestMiss(const Problem &p, Assignment a) {
  NearestMiss miss;
  std::optional<Evaluation> value = llvm::expectedToOptional(evaluate(p, a));
  if (value && p.usageLimit && value->peakUsage > *p.usageLimit) {
    miss.time = value->peakTime;
    miss.excess = value->peakUsage - *p.usageLimit;
    for (uint32_t n = 0; n < p.nodes.size(); ++n)
      if (p.nodes[n].live.begin <= miss.time && miss.time < p.nodes[n].live.end)
        miss.nodes.push_back(n);
    std::ranges::sort(miss.nodes, [&](uint32_t l, uint32_t r) {
      Usage ofL = p.nodes[l].usages[a[l]], ofR = p.nodes[r].usages[a[r]];
      return ofL != ofR ? ofL > ofR : l < r;
    });
    if (miss.nodes.size() > 10)
      miss.nodes.resize(10);
  }
  miss.strategies = std::move(a);
  return miss;
}

Assignment leastUsage(const Problem &p) {
  Assignment a;
  for (const Node &n : p.nodes) {
    int32_t least = 0;
    for (size_t s = 1; s < n.costs.size(); ++s)
      if (std::pair(n.usages[s], n.costs[s]) <
          std::pair(n.usages[least], n.costs[least]))
        least = static_cast<int32_t>(s);
    a.push_back(least);
  }
  return a;
}

} // namespace heddle::solver
