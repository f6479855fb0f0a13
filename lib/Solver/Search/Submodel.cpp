//===- Submodel.cpp - A model whose other variables are fixed -------------===//

#include "Search/Submodel.h"

#include <algorithm>

namespace heddle::solver {

namespace {

/// Times of the whole model between which a region's usage cannot change,
/// without those in which it cannot exceed what is left.
struct Segment {
  int32_t Begin, End;
  Usage Room;
};

std::vector<Segment> segmentsOf(const Model &Whole,
                                const std::vector<int32_t> &Region,
                                const Labels &X,
                                const std::vector<Usage> &Used) {
  std::vector<int32_t> Breaks;
  size_t Times = Whole.Capacity.size();
  std::vector<Usage> Own(Times + 1, 0), Most(Times + 1, 0);
  for (int32_t V : Region)
    for (const Load &L : Whole.Vars[V].Loads) {
      Breaks.push_back(L.Begin);
      Breaks.push_back(L.End);
      Usage Largest = *std::ranges::max_element(L.Amount);
      Own[L.Begin] += L.Amount[X[V]];
      Own[L.End] -= L.Amount[X[V]];
      Most[L.Begin] += Largest;
      Most[L.End] -= Largest;
    }
  std::ranges::sort(Breaks);
  Breaks.erase(std::ranges::unique(Breaks).begin(), Breaks.end());
  std::vector<Segment> Segments;
  Usage OwnSum = 0, MostSum = 0;
  for (size_t I = 0; I + 1 < Breaks.size(); ++I) {
    OwnSum += Own[Breaks[I]];
    MostSum += Most[Breaks[I]];
    Usage Room = Whole.Capacity[Breaks[I]] - Used[Breaks[I]];
    for (int32_t K = Breaks[I]; K < Breaks[I + 1]; ++K)
      Room = std::min(Room, Whole.Capacity[K] - Used[K]);
    if (MostSum > Room + OwnSum)
      Segments.push_back({Breaks[I], Breaks[I + 1], Room + OwnSum});
  }
  return Segments;
}

} // namespace

Submodel fixOutside(const Model &Whole, const std::vector<int32_t> &Region,
                    const Labels &X, const std::vector<Usage> &Used,
                    const std::vector<double> &Prices) {
  Submodel S;
  std::vector<int32_t> Number(Whole.Vars.size(), -1);
  for (size_t I = 0; I < Region.size(); ++I)
    Number[Region[I]] = static_cast<int32_t>(I);
  std::vector<Segment> Segments = segmentsOf(Whole, Region, X, Used);
  for (const Segment &G : Segments) {
    S.M.Capacity.push_back(G.Room);
    S.Prices.push_back(0);
    for (int32_t T = G.Begin; T < G.End; ++T)
      S.Prices.back() += Prices[T];
  }

  Labels Now;
  for (int32_t V : Region) {
    const Variable &Old = Whole.Vars[V];
    std::vector<Cost> Unary(Old.Unary);
    for (int32_t Id : Old.Pairs) {
      int32_t Other = Whole.Pairs[Id].other(V);
      if (Number[Other] >= 0)
        continue;
      PairView Costs(Whole, Whole.Pairs[Id], V);
      for (int32_t L = 0; L < Old.size(); ++L)
        Unary[L] = addCosts(Unary[L], Costs(L, X[Other]));
    }
    auto &Labels = S.LabelOf.emplace_back();
    Variable New;
    Now.push_back(0);
    for (int32_t L = 0; L < Old.size(); ++L)
      if (Unary[L] < InfiniteCost || L == X[V]) {
        if (L == X[V])
          Now.back() = static_cast<int32_t>(Labels.size());
        Labels.push_back(L);
        New.Unary.push_back(Unary[L]);
      }
    for (const Load &L : Old.Loads) {
      Load Part{0, 0, {}};
      auto First =
          std::ranges::lower_bound(Segments, L.Begin, {}, &Segment::Begin);
      auto Last =
          std::ranges::lower_bound(Segments, L.End, {}, &Segment::Begin);
      Part.Begin = static_cast<int32_t>(First - Segments.begin());
      Part.End = static_cast<int32_t>(Last - Segments.begin());
      for (int32_t Label : Labels)
        Part.Amount.push_back(L.Amount[Label]);
      if (Part.Begin < Part.End)
        New.Loads.push_back(std::move(Part));
    }
    S.M.Vars.push_back(std::move(New));
  }

  for (int32_t V : Region)
    for (int32_t Id : Whole.Vars[V].Pairs) {
      const Pair &Old = Whole.Pairs[Id];
      if (Old.A != V || Number[Old.B] < 0)
        continue;
      Pair New{Number[Old.A], Number[Old.B], {}};
      PairView Costs(Whole, Old, Old.A);
      for (int32_t A : S.LabelOf[New.A])
        for (int32_t B : S.LabelOf[New.B])
          New.Table.push_back(Costs(A, B));
      auto NewId = static_cast<int32_t>(S.M.Pairs.size());
      S.M.Vars[New.A].Pairs.push_back(NewId);
      S.M.Vars[New.B].Pairs.push_back(NewId);
      S.M.Pairs.push_back(std::move(New));
    }
  S.Before = costOf(S.M, Now);
  return S;
}

} // namespace heddle::solver
