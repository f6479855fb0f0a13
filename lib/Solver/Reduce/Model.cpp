//===- Model.cpp - Costs and usages of a reduced problem ------------------===//

#include "Reduce/Model.h"

namespace heddle::solver {

Cost costOf(const Model &m, const Labels &x) {
  Cost total = m.constant;
  for (size_t v = 0; v < m.vars.size(); ++v)
    total = addCosts(total, m.vars[v].unary[x[v]]);
  for (const Pair &p : m.pairs)
    total = addCosts(total, PairView(m, p, p.a)(x[p.a], x[p.b]));
  return total;
}

std::vector<Usage> usageOf(const Model &m, const Labels &x) {
  std::vector<Usage> used(m.capacity.size() + 1, 0);
  for (size_t v = 0; v < m.vars.size(); ++v)
    for (const Load &l : m.vars[v].loads) {
      used[l.begin] += l.amount[x[v]];
      used[l.end] -= l.amount[x[v]];
    }
  for (size_t t = 1; t < used.size(); ++t)
    used[t] += used[t - 1];
  used.pop_back();
  return used;
}

bool withinCapacity(const Model &m, const std::vector<Usage> &used) {
  for (size_t t = 0; t < used.size(); ++t)
    if (used[t] > m.capacity[t])
      return false;
  return true;
}

} // namespace heddle::solver
