//===- Model.cpp - Costs and usages of a reduced problem ------------------===//

#include "Reduce/Model.h"

namespace heddle::solver {

Cost costOf(const Model &M, const Labels &X) {
  Cost Total = M.Constant;
  for (size_t V = 0; V < M.Vars.size(); ++V)
    Total = addCosts(Total, M.Vars[V].Unary[X[V]]);
  for (const Pair &P : M.Pairs)
    Total = addCosts(Total, PairView(M, P, P.A)(X[P.A], X[P.B]));
  return Total;
}

std::vector<Usage> usageOf(const Model &M, const Labels &X) {
  std::vector<Usage> Used(M.Capacity.size() + 1, 0);
  for (size_t V = 0; V < M.Vars.size(); ++V)
    for (const Load &L : M.Vars[V].Loads) {
      Used[L.Begin] += L.Amount[X[V]];
      Used[L.End] -= L.Amount[X[V]];
    }
  for (size_t T = 1; T < Used.size(); ++T)
    Used[T] += Used[T - 1];
  Used.pop_back();
  return Used;
}

bool withinCapacity(const Model &M, const std::vector<Usage> &Used) {
  for (size_t T = 0; T < Used.size(); ++T)
    if (Used[T] > M.Capacity[T])
      return false;
  return true;
}

} // namespace heddle::solver
