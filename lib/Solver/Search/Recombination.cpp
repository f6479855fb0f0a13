//===- Recombination.cpp - The best mixture of assignments ----------------===//

#include "Search/Recombination.h"
#include "Bound/Ascent.h"
#include "Exact/Exact.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace heddle::solver {

namespace {

/// More than these would make the little problem a large one.
constexpr size_t MaxComponents = 400;
/// Of ways times times: their usages may take up to 480 MB for a moment.
constexpr double MaxCells = 2e7;
/// What the exact search may visit.
constexpr double MaxEntries = 5e4;
/// Some hundred steps of the prices.
constexpr double ClimbQuota = 6e4;

/// Variables that are decided together, and the ways in which they can be:
/// as it is first.
struct Group {
  std::vector<int32_t> Vars;
  std::vector<Labels> Ways; ///< By way: the labels of `Vars`.
  std::vector<Cost> Costs;  ///< Of these variables and of all their pairs.
};

/// The components of the variables in which some assignment differs from `X`.
std::vector<Group> findGroups(const Model &M, const Labels &X,
                              const std::vector<const Labels *> &Others) {
  std::vector<char> Open(M.Vars.size(), 0);
  for (const Labels *O : Others)
    for (size_t V = 0; V < X.size(); ++V)
      Open[V] |= (*O)[V] != X[V];
  std::vector<Group> Groups;
  for (size_t First = 0; First < X.size(); ++First) {
    if (!Open[First])
      continue;
    Group &G = Groups.emplace_back();
    G.Vars.push_back(static_cast<int32_t>(First));
    Open[First] = 0;
    for (size_t Next = 0; Next < G.Vars.size(); ++Next)
      for (int32_t Id : M.Vars[G.Vars[Next]].Pairs) {
        int32_t Other = M.Pairs[Id].other(G.Vars[Next]);
        if (Open[Other]) {
          Open[Other] = 0;
          G.Vars.push_back(Other);
        }
      }
  }
  return Groups;
}

/// What the variables of `G` and their pairs cost; `Where` says which way each
/// variable of the model has, -1 outside of the group.
Cost costOfWay(const Model &M, const Group &G, const Labels &Way,
               const Labels &X, std::vector<int32_t> &Where) {
  for (size_t I = 0; I < G.Vars.size(); ++I)
    Where[G.Vars[I]] = Way[I];
  Cost Sum = 0;
  for (int32_t V : G.Vars) {
    Sum = addCosts(Sum, M.Vars[V].Unary[Where[V]]);
    for (int32_t Id : M.Vars[V].Pairs) {
      const Pair &P = M.Pairs[Id];
      int32_t Other = P.other(V);
      // A pair within the group counts once.
      if (Where[Other] >= 0 && Other < V)
        continue;
      int32_t Theirs = Where[Other] >= 0 ? Where[Other] : X[Other];
      Sum = addCosts(Sum, PairView(M, P, V)(Where[V], Theirs));
    }
  }
  for (int32_t V : G.Vars)
    Where[V] = -1;
  return Sum;
}

/// The different ways that cost less than infinity; what `X` does comes first.
void findWays(const Model &M, Group &G, const Labels &X,
              const std::vector<const Labels *> &Others,
              std::vector<int32_t> &Where) {
  auto Add = [&](const Labels &From) {
    Labels Way;
    for (int32_t V : G.Vars)
      Way.push_back(From[V]);
    if (std::ranges::find(G.Ways, Way) != G.Ways.end())
      return;
    Cost Sum = costOfWay(M, G, Way, X, Where);
    if (Sum >= InfiniteCost)
      return;
    G.Ways.push_back(std::move(Way));
    G.Costs.push_back(Sum);
  };
  Add(X);
  for (const Labels *O : Others)
    Add(*O);
}

/// What a way uses at every time.
std::vector<Usage> usageOfWay(const Model &M, const Group &G,
                              const Labels &Way) {
  std::vector<Usage> Used(M.Capacity.size() + 1, 0);
  for (size_t I = 0; I < G.Vars.size(); ++I)
    for (const Load &L : M.Vars[G.Vars[I]].Loads) {
      Used[L.Begin] += L.Amount[Way[I]];
      Used[L.End] -= L.Amount[Way[I]];
    }
  std::partial_sum(Used.begin(), Used.end(), Used.begin());
  Used.pop_back();
  return Used;
}

/// The little problem: a variable per group, a value per way, and the times at
/// which the limit could be exceeded.
struct Little {
  Model M;
  std::vector<double> Prices;
};

Little build(const Model &M, const std::vector<Group> &Groups, const Labels &X,
             const std::vector<double> &Prices) {
  size_t Times = M.Capacity.size();
  std::vector<std::vector<std::vector<Usage>>> Used(Groups.size());
  std::vector<Usage> Rest = usageOf(M, X), Most(Times, 0);
  for (size_t K = 0; K < Groups.size(); ++K) {
    for (const Labels &Way : Groups[K].Ways)
      Used[K].push_back(usageOfWay(M, Groups[K], Way));
    for (size_t T = 0; T < Times; ++T) {
      Usage Largest = 0;
      for (const auto &Row : Used[K])
        Largest = std::max(Largest, Row[T]);
      Rest[T] -= Used[K][0][T];
      Most[T] += Largest;
    }
  }
  Little Result;
  Result.M.Vars.resize(Groups.size());
  for (size_t K = 0; K < Groups.size(); ++K)
    Result.M.Vars[K].Unary = Groups[K].Costs;
  std::map<std::vector<Usage>, int32_t> Known; ///< Usage of all ways -> time.
  std::vector<Usage> Key;
  for (size_t T = 0; T < Times; ++T) {
    Usage Room = M.Capacity[T] - Rest[T];
    if (Most[T] <= Room)
      continue;
    Key.clear();
    for (const auto &Rows : Used)
      for (const auto &Row : Rows)
        Key.push_back(Row[T]);
    auto Count = static_cast<int32_t>(Result.M.Capacity.size());
    auto [At, New] = Known.try_emplace(Key, Count);
    if (!New) {
      Usage &Least = Result.M.Capacity[At->second];
      Least = std::min(Least, Room);
      Result.Prices[At->second] += Prices[T];
      continue;
    }
    Result.M.Capacity.push_back(Room);
    Result.Prices.push_back(Prices[T]);
    for (size_t K = 0; K < Groups.size(); ++K) {
      Load L{Count, Count + 1, {}};
      for (const auto &Row : Used[K])
        L.Amount.push_back(Row[T]);
      if (std::ranges::any_of(L.Amount, [](Usage U) { return U != 0; }))
        Result.M.Vars[K].Loads.push_back(std::move(L));
    }
  }
  return Result;
}

/// What every group of the little problem does in the best mixture, if one is
/// found that costs less than `Before` or if nothing binds; adds to `Work`.
std::optional<Labels> findMixture(const Little &L, Cost Before, double &Work,
                                  const std::function<bool()> &Stop) {
  if (L.M.Capacity.empty()) {
    Labels Cheapest;
    for (const Variable &V : L.M.Vars)
      Cheapest.push_back(static_cast<int32_t>(
          std::ranges::min_element(V.Unary) - V.Unary.begin()));
    return Cheapest;
  }
  TablePool Pool(L.M);
  Ascent Climber(L.M, Pool, {L.Prices, {}});
  auto Target = static_cast<double>(Before);
  bool Proven = Climber.prove(Target, ClimbQuota, Stop);
  // There are no tables: a step of the prices visits every load instead.
  size_t Loads = L.M.Capacity.size();
  for (const Variable &V : L.M.Vars)
    Loads += V.Loads.size() * V.Unary.size();
  Work += Climber.work() * 0.005 * static_cast<double>(Loads);
  if (Proven)
    return std::nullopt;
  // The optimum is close to the bound, where the lists are short.
  Dual::Reduced Costs = Climber.best().reducedCosts();
  double Room = Target - Climber.bound();
  for (int Divisor = 64; Divisor >= 1; Divisor /= 4) {
    double Part = 1.0 / Divisor;
    Cost Below =
        Part < 1 ? static_cast<Cost>(Climber.bound() + Part * Room) : Before;
    ExactResult Found =
        solveExactly(L.M, Costs, nullptr, Below, MaxEntries, Stop);
    Work += Found.Work * 30;
    if (Found.Best || !Found.Complete)
      return Found.Best;
  }
  return std::nullopt;
}

} // namespace

double recombine(const Model &M, Candidate &C,
                 const std::vector<const Labels *> &Others,
                 const std::vector<double> &Prices,
                 const std::function<bool()> &Stop) {
  auto Work = static_cast<double>(M.Vars.size() * (Others.size() + 1));
  std::vector<Group> Groups = findGroups(M, C.X, Others);
  std::vector<int32_t> Where(M.Vars.size(), -1);
  for (Group &G : Groups) {
    findWays(M, G, C.X, Others, Where);
    Work += static_cast<double>(G.Vars.size() * G.Ways.size()) * 10;
  }
  std::erase_if(Groups, [](const Group &G) { return G.Ways.size() < 2; });
  double Cells = 0;
  for (const Group &G : Groups)
    Cells += static_cast<double>(G.Ways.size() * M.Capacity.size());
  if (Groups.empty() || Groups.size() > MaxComponents || Cells > MaxCells ||
      Stop())
    return Work;
  Little L = build(M, Groups, C.X, Prices);
  Work += Cells * 4;
  Cost Before = 0;
  for (const Group &G : Groups)
    Before = addCosts(Before, G.Costs[0]);
  std::optional<Labels> Found = findMixture(L, Before, Work, Stop);
  if (!Found)
    return Work;
  Candidate Next{C.X};
  for (size_t K = 0; K < Groups.size(); ++K)
    for (size_t I = 0; I < Groups[K].Vars.size(); ++I)
      Next.X[Groups[K].Vars[I]] = Groups[K].Ways[(*Found)[K]][I];
  score(M, Next);
  if (Next.betterThan(C))
    C = std::move(Next);
  return Work;
}

double recombineAll(const Model &M, Candidate &C,
                    const std::vector<Labels> &Others,
                    const std::vector<double> &Prices, double Quota, Random &R,
                    const std::function<bool()> &Stop) {
  double Work = 0;
  auto Go = [&] { return C.feasible() && Work < Quota && !Stop(); };
  size_t Count = Others.size();
  // Another one first each time, so that the quota is not always up before the
  // last.
  for (size_t I = 0, First = Count > 0 ? R.below(Count) : 0; I < Count && Go();
       ++I)
    Work += recombine(M, C, {&Others[(First + I) % Count]}, Prices, Stop);
  for (int Try = 0; Try < 3 && Count > 2 && Go(); ++Try) {
    std::vector<const Labels *> Some;
    for (size_t I = 2 + R.below(Count - 1); I-- > 0;)
      Some.push_back(&Others[R.below(Count)]);
    Work += recombine(M, C, Some, Prices, Stop);
  }
  return Work;
}

} // namespace heddle::solver
