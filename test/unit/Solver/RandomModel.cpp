//===- RandomModel.cpp - Small models to search in ------------------------===//

#include "RandomModel.h"

namespace heddle::solver {

Model randomModel(Random &r) {
  Model m;
  for (int v = 0; v < kVariableCount; ++v) {
    Variable var;
    Load early{0, 2, {}}, late{2, kTimes, {}};
    for (int s = 0; s < 3; ++s) {
      var.unary.push_back(static_cast<Cost>(r.below(50)));
      early.amount.push_back(static_cast<Usage>(r.below(10)));
      late.amount.push_back(static_cast<Usage>(r.below(10)));
    }
    if (r.below(4) > 0)
      var.loads.push_back(early);
    if (r.below(4) > 0)
      var.loads.push_back(late);
    m.vars.push_back(var);
  }
  for (int32_t a = 0; a < kVariableCount; ++a)
    for (int32_t b = a + 1; b < kVariableCount; ++b) {
      if (r.below(7) > 0)
        continue;
      Pair p{a, b, {}};
      for (int i = 0; i < 9; ++i)
        p.table.push_back(r.below(12) ? static_cast<Cost>(r.below(50))
                                      : kInfiniteCost);
      m.vars[a].pairs.push_back(static_cast<int32_t>(m.pairs.size()));
      m.vars[b].pairs.push_back(static_cast<int32_t>(m.pairs.size()));
      m.pairs.push_back(p);
    }
  m.capacity.assign(kTimes, 0);
  return m;
}

Labels randomLabels(Random &r) {
  Labels x(kVariableCount);
  for (int32_t &s : x)
    s = static_cast<int32_t>(r.below(3));
  return x;
}

} // namespace heddle::solver
