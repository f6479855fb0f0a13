//===- Restriction.cpp - Search among few values per variable -------------===//

#include "Search/Restriction.h"

#include <algorithm>

namespace heddle::solver {

Restriction restrictTo(const Model &Whole,
                       std::vector<std::vector<int32_t>> Keep) {
  Restriction Result;
  Model &M = Result.M;
  M.Capacity = Whole.Capacity;
  M.Constant = Whole.Constant;
  for (size_t V = 0; V < Whole.Vars.size(); ++V) {
    const Variable &Old = Whole.Vars[V];
    Variable New;
    New.Pairs = Old.Pairs;
    for (int32_t S : Keep[V])
      New.Unary.push_back(Old.Unary[S]);
    for (const Load &L : Old.Loads) {
      Load Part{L.Begin, L.End, {}};
      for (int32_t S : Keep[V])
        Part.Amount.push_back(L.Amount[S]);
      New.Loads.push_back(std::move(Part));
    }
    M.Vars.push_back(std::move(New));
  }
  for (const Pair &Old : Whole.Pairs) {
    Pair New{Old.A, Old.B, {}};
    PairView Costs(Whole, Old, Old.A);
    for (int32_t A : Keep[Old.A])
      for (int32_t B : Keep[Old.B])
        New.Table.push_back(Costs(A, B));
    M.Pairs.push_back(std::move(New));
  }
  Result.LabelOf = std::move(Keep);
  return Result;
}

std::vector<std::vector<int32_t>>
likelyValues(const Labels &Current,
             const std::vector<std::vector<double>> &ValueBounds, size_t Count,
             Random &R) {
  std::vector<std::vector<int32_t>> Result;
  std::vector<std::pair<double, int32_t>> Ranked;
  for (size_t V = 0; V < Current.size(); ++V) {
    const std::vector<double> &Bounds = ValueBounds[V];
    double Least = *std::ranges::min_element(Bounds);
    Ranked.clear();
    for (size_t S = 0; S < Bounds.size(); ++S)
      if (static_cast<int32_t>(S) != Current[V])
        Ranked.emplace_back((Bounds[S] - Least) * (0.5 + R.unit()),
                            static_cast<int32_t>(S));
    size_t Others = std::min(Ranked.size(), Count - 1);
    std::partial_sort(Ranked.begin(), Ranked.begin() + Others, Ranked.end());
    auto &Row = Result.emplace_back(1, Current[V]);
    for (size_t I = 0; I < Others; ++I)
      Row.push_back(Ranked[I].second);
  }
  return Result;
}

std::vector<std::vector<int32_t>>
proposedValues(const Labels &Current, const std::vector<Labels> &Proposals) {
  std::vector<std::vector<int32_t>> Result;
  for (size_t V = 0; V < Current.size(); ++V) {
    auto &Row = Result.emplace_back(1, Current[V]);
    for (const Labels &X : Proposals)
      if (std::ranges::find(Row, X[V]) == Row.end())
        Row.push_back(X[V]);
  }
  return Result;
}

double improveRestricted(const Model &M, Candidate &C,
                         const std::vector<double> &Prices,
                         std::vector<std::vector<int32_t>> Keep, double Quota,
                         Random &R, const std::function<bool()> &Stop) {
  Restriction Few = restrictTo(M, std::move(Keep));
  TablePool Pool(Few.M);
  CostTables Tables(Few.M, Pool);
  Search Engine(Tables, R.next());
  Candidate Inner;
  Inner.X.assign(M.Vars.size(), 0);
  score(Few.M, Inner);
  double Entries = 0;
  for (const Pair &P : Few.M.Pairs)
    Entries += static_cast<double>(P.Table.size()) * 8;
  Engine.improveAtOnce(Inner, Prices, Quota / 2, Stop);
  Engine.improve(Inner, Prices, std::max(0.0, Quota - Entries - Engine.work()),
                 0, Stop);
  Candidate Found;
  for (size_t V = 0; V < M.Vars.size(); ++V)
    Found.X.push_back(Few.LabelOf[V][Inner.X[V]]);
  score(M, Found);
  if (Found.betterThan(C))
    C = std::move(Found);
  return Entries + Engine.work();
}

} // namespace heddle::solver
