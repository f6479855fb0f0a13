//===- Search.cpp - Large-neighbourhood search ----------------------------===//

#include "Search/Search.h"
#include "Bound/Ascent.h"
#include "Exact/Exact.h"
#include "Search/Recombination.h"
#include "Search/Submodel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle::solver {

namespace {

void addCost(Candidate &C, Cost Entry) {
  if (Entry < InfiniteCost)
    C.Total = addCosts(C.Total, Entry);
  else
    ++C.Forbidden;
}

void scoreCost(const Model &M, Candidate &C) {
  C.Total = M.Constant;
  C.Forbidden = 0;
  for (size_t V = 0; V < M.Vars.size(); ++V)
    addCost(C, M.Vars[V].Unary[C.X[V]]);
  for (const Pair &P : M.Pairs)
    addCost(C, PairView(M, P, P.A)(C.X[P.A], C.X[P.B]));
}

double overuse(const Model &M, const std::vector<Usage> &Used) {
  double Sum = 0;
  for (size_t T = 0; T < Used.size(); ++T)
    if (Used[T] > M.Capacity[T])
      Sum += static_cast<double>(Used[T] - M.Capacity[T]);
  return Sum;
}

} // namespace

void score(const Model &M, Candidate &C) {
  scoreCost(M, C);
  C.Overuse = overuse(M, usageOf(M, C.X));
}

Search::Search(const CostTables &Tables, uint64_t Seed)
    : Tables(Tables), M(Tables.model()), Part(Tables), Whole(Tables), R(Seed),
      InRegion(M.Vars.size(), 0), Extra(Tables.valueCount(), 0) {}

/// Solves the neighbourhood that `Engine` has planned at the given prices and
/// updates `C`; `Used` becomes what it uses.
void Search::solveAt(Elimination &Engine, const std::vector<double> &Prices,
                     Candidate &C) {
  PriceSums.assign(Prices.size() + 1, 0);
  for (size_t T = 0; T < Prices.size(); ++T)
    PriceSums[T + 1] = PriceSums[T] + Prices[T];
  for (int32_t V : Engine.members()) {
    double *Row = Extra.data() + Tables.offset(V);
    std::fill(Row, Row + M.Vars[V].size(), 0.0);
    for (const Load &L : M.Vars[V].Loads) {
      double PerUnit = PriceSums[L.End] - PriceSums[L.Begin];
      if (PerUnit > 0)
        for (size_t S = 0; S < L.Amount.size(); ++S)
          Row[S] += PerUnit * static_cast<double>(L.Amount[S]);
    }
  }
  Engine.solve(Extra, C.X);
  scoreCost(M, C);
  Used = usageOf(M, C.X);
  C.Overuse = overuse(M, Used);
  Work += Engine.work() + static_cast<double>(M.Pairs.size()) * 2;
}

void Search::planWhole() {
  // What has no choice would only tie its neighbours together.
  std::vector<int32_t> All;
  for (size_t V = 0; V < M.Vars.size(); ++V)
    if (hasChoice(static_cast<int32_t>(V)))
      All.push_back(static_cast<int32_t>(V));
  Whole.plan(All, MaxTable, MaxWhole, R);
  Replan = false;
  Work += static_cast<double>(M.Vars.size()) * 200;
}

void Search::construct(Candidate &C, const std::vector<double> &Prices,
                       double Quota, const std::function<bool()> &Stop) {
  double Until = Work + Quota;
  constexpr int Tries = 16, TriesPerPlan = 4;
  varyPrices(Prices);
  double Growth = 1.02 + 0.5 * R.unit() * R.unit();
  Next = C;
  for (int Try = 0; Try < Tries && Work < Until && !Stop(); ++Try) {
    if (Try % TriesPerPlan == 0)
      planWhole();
    solveAt(Whole, Local, Next);
    if (Next.betterThan(C))
      C = Next;
    if (Next.feasible())
      return;
    raisePrices(Growth, 0.02);
    Growth *= 1.05;
  }
}

void Search::growRegion(int32_t Seed, size_t Size) {
  if (InRegion[Seed])
    return;
  size_t First = Region.size(), Limit = First + Size;
  InRegion[Seed] = 1;
  Region.push_back(Seed);
  for (size_t Next = First; Next < Region.size() && Region.size() < Limit;
       ++Next) {
    // Not quite breadth first, so that two regions of a seed differ.
    size_t Ahead = std::min<size_t>(Region.size() - Next, 8);
    std::swap(Region[Next], Region[Next + R.below(Ahead)]);
    for (const auto &N : Tables.neighbours(Region[Next]))
      if (!InRegion[N.Var] && R.below(10) < 8) {
        InRegion[N.Var] = 1;
        Region.push_back(N.Var);
      }
  }
}

void Search::chooseRegion(size_t Size) {
  Region.clear();
  size_t Count = M.Vars.size();
  if (Size >= Count) {
    Region.resize(Count);
    std::iota(Region.begin(), Region.end(), 0);
    return;
  }
  size_t Seeds = 1 + R.below(4);
  for (size_t I = 0; I < Seeds; ++I)
    growRegion(static_cast<int32_t>(R.below(Count)), 1 + Size / Seeds);
  for (int32_t V : Region)
    InRegion[V] = 0;
}

/// Prices near the given ones.
void Search::varyPrices(const std::vector<double> &Prices) {
  double Factor = std::exp((R.unit() - 0.5) * 0.8);
  Local = Prices;
  for (double &P : Local)
    P *= Factor * (0.9 + 0.2 * R.unit());
}

/// Multiplies the prices where the limit is not kept, to at least this share of
/// the highest.
void Search::raisePrices(double Growth, double LeastShare) {
  double Highest = 1e-9;
  for (double P : Local)
    Highest = std::max(Highest, P);
  for (size_t T = 0; T < Used.size(); ++T)
    if (Used[T] > M.Capacity[T])
      Local[T] = std::max(Local[T] * Growth, Highest * LeastShare);
}

/// Whether a search at `Current` goes on from `Next`.
static bool acceptable(const Candidate &Next, const Candidate &Current,
                       Cost Tolerance) {
  return Next.feasible() && Current.feasible()
             ? Next.Total <= Current.Total + Tolerance
             : Next.betterThan(Current);
}

/// A neighbourhood by prices. True if the best candidate became better.
bool Search::tryPrices(Candidate &Current, Candidate &Best, Cost Tolerance,
                       const std::vector<double> &Prices) {
  chooseRegion(size_t(16) << R.below(6));
  std::erase_if(Region, [&](int32_t V) { return !hasChoice(V); });
  Part.plan(Region, MaxTable, MaxTotal, R);
  Work += static_cast<double>(Region.size()) * 200;
  varyPrices(Prices);
  Next = Current;
  for (int Try = 0; Try < 4; ++Try) {
    solveAt(Part, Local, Next);
    bool Accept = acceptable(Next, Current, Tolerance);
    if (Accept)
      Current = Next;
    if (Next.betterThan(Best)) {
      Best = Next;
      return true;
    }
    if (Accept || Next.Overuse == 0)
      return false;
    raisePrices(1.3, 0.1);
  }
  return false;
}

/// Everything but a cutset, at prices that keep the limit and at prices that
/// do not; then the best mixture of what they have brought.
bool Search::tryAtOnce(Candidate &Current, Candidate &Best, Cost Tolerance,
                       const std::vector<double> &Prices,
                       const std::function<bool()> &Stop) {
  if (Replan || R.below(4) == 0)
    planWhole();
  varyPrices(Prices);
  const Candidate Before = Current;
  std::vector<Labels> Seen;
  bool Keeps = false, Breaks = false;
  Next = Current;
  for (int Try = 0; Try < 4 && !(Keeps && Breaks) && !Stop(); ++Try) {
    solveAt(Whole, Local, Next);
    Seen.push_back(Next.X);
    if (acceptable(Next, Current, Tolerance))
      Current = Next;
    (Next.Overuse > 0 ? Breaks : Keeps) = true;
    if (Next.Overuse > 0)
      raisePrices(1.3, 0.1);
    else
      for (double &P : Local)
        P *= 0.75;
  }
  if (Before.feasible()) {
    Candidate Mixed = Before;
    std::vector<const Labels *> Others;
    Others.reserve(Seen.size());
    for (const Labels &X : Seen)
      Others.push_back(&X);
    Work += recombine(M, Mixed, Others, Prices, Stop);
    if (Mixed.betterThan(Before) && Mixed.betterThan(Current))
      Current = std::move(Mixed);
  }
  if (!Current.betterThan(Best))
    return false;
  Best = Current;
  return true;
}

bool Search::tryExactly(Candidate &Current, Candidate &Best,
                        const std::vector<double> &Prices,
                        const std::function<bool()> &Stop) {
  constexpr double MaxEntries = 2e4;
  chooseRegion(static_cast<size_t>(ExactSize * (0.5 + R.unit())));
  std::erase(Region, Pinned);
  Used = usageOf(M, Current.X);
  Submodel Sub = fixOutside(M, Region, Current.X, Used, Prices);
  TablePool Pool(Sub.M);
  Ascent Climber(Sub.M, Pool, {Sub.Prices, {}});
  auto Target = static_cast<double>(Sub.Before);
  double Entries = static_cast<double>(M.Capacity.size() + M.Vars.size());
  for (const Pair &P : Sub.M.Pairs)
    Entries += static_cast<double>(P.Table.size());
  bool Proven = Climber.prove(Target, Entries * 400, Stop);
  Work += Climber.work() + Entries * 4;
  if (Proven)
    return false;
  ExactResult Found = solveExactly(Sub.M, Climber.best().reducedCosts(),
                                   nullptr, Sub.Before, MaxEntries, Stop);
  Work += Found.Work * 30;
  ExactSize *= Found.Complete ? 1.02 : 0.96;
  ExactSize = std::clamp(ExactSize, 4.0,
                         std::max(4.0, static_cast<double>(M.Vars.size())));
  if (!Found.Best)
    return false;
  for (size_t I = 0; I < Region.size(); ++I)
    Current.X[Region[I]] = Sub.LabelOf[I][(*Found.Best)[I]];
  score(M, Current);
  if (!Current.betterThan(Best))
    return false;
  Best = Current;
  return true;
}

void Search::improveAtOnce(Candidate &C, const std::vector<double> &Prices,
                           double Quota, const std::function<bool()> &Stop) {
  double Until = Work + Quota;
  Candidate Current = C;
  while (Work < Until && !Stop())
    tryAtOnce(Current, C, 0, Prices, Stop);
}

void Search::improve(Candidate &C, const std::vector<double> &Prices,
                     double Quota, Cost Tolerance,
                     const std::function<bool()> &Stop) {
  double Until = Work + Quota;
  Candidate Current = C;
  while (Work < Until && !Stop()) {
    double OfPrices = ByPrices.Gain / ByPrices.Work;
    double OfExact = ByExact.Gain / ByExact.Work;
    double Chance = std::clamp(OfExact / (OfExact + OfPrices), 0.1, 0.9);
    bool Exactly = Current.feasible() && R.unit() < Chance;
    double Before = Work;
    bool Better = Exactly ? tryExactly(Current, C, Prices, Stop)
                  : R.below(4) == 0
                      ? tryAtOnce(Current, C, Tolerance, Prices, Stop)
                      : tryPrices(Current, C, Tolerance, Prices);
    Merit &Kind = Exactly ? ByExact : ByPrices;
    Kind.Gain = 0.99 * Kind.Gain + (Better ? 1 : 0.002);
    Kind.Work = 0.99 * Kind.Work + (Work - Before);
  }
}

} // namespace heddle::solver
