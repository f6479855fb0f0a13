//===- RandomModel.cpp - Small models to search in ------------------------===//

#include "RandomModel.h"

namespace heddle::solver {

Model randomModel(Random &R) {
  Model M;
  for (int V = 0; V < VariableCount; ++V) {
    Variable Var;
    Load Early{0, 2, {}}, Late{2, Times, {}};
    for (int S = 0; S < 3; ++S) {
      Var.Unary.push_back(static_cast<Cost>(R.below(50)));
      Early.Amount.push_back(static_cast<Usage>(R.below(10)));
      Late.Amount.push_back(static_cast<Usage>(R.below(10)));
    }
    if (R.below(4) > 0)
      Var.Loads.push_back(Early);
    if (R.below(4) > 0)
      Var.Loads.push_back(Late);
    M.Vars.push_back(Var);
  }
  for (int32_t A = 0; A < VariableCount; ++A)
    for (int32_t B = A + 1; B < VariableCount; ++B) {
      if (R.below(7) > 0)
        continue;
      Pair P{A, B, {}};
      for (int I = 0; I < 9; ++I)
        P.Table.push_back(R.below(12) ? static_cast<Cost>(R.below(50))
                                      : InfiniteCost);
      M.Vars[A].Pairs.push_back(static_cast<int32_t>(M.Pairs.size()));
      M.Vars[B].Pairs.push_back(static_cast<int32_t>(M.Pairs.size()));
      M.Pairs.push_back(P);
    }
  M.Capacity.assign(Times, 0);
  return M;
}

Labels randomLabels(Random &R) {
  Labels X(VariableCount);
  for (int32_t &S : X)
    S = static_cast<int32_t>(R.below(3));
  return X;
}

} // namespace heddle::solver
