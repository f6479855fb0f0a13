//===- Stage.cpp - All searches on one reduced model ----------------------===//

#include "Search/Stage.h"
#include "Exact/OneLimit.h"
#include "Search/Parallel.h"
#include "Search/Recombination.h"
#include "Search/Restriction.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace heddle::solver {

namespace {
/// The first of these work on what is exploited, the others go their own ways
/// for a while.
constexpr size_t WalkerCount = 8;
constexpr size_t Exploiting = 3;
/// Which of these tries the values that the bound makes likely, and which those
/// of one proposal; the other one mixes all of them.
constexpr size_t TriesLikely = 1, TriesOneProposal = 2;
/// Rounds of a life. Short ones find other ways of doing everything, long ones
/// do them well.
constexpr int Lifetimes[WalkerCount - Exploiting] = {2, 3, 5, 9, 25};
/// Ends of lives that are remembered.
constexpr size_t MaxEnded = 12;
/// Of more, a search among all of their values would be one of the whole model.
constexpr size_t MaxFused = 8;
/// Rounds in which what is exploited may become no better.
constexpr int Patience = 20;
/// What an entry of the exact search costs in entries of the others, and the
/// share of all work that it may take.
constexpr double ExactWeight = 30;
constexpr double OneLimitWeight = 4;
constexpr double ExactShare = 0.2;
/// Up to here the exact bound of a tree decomposition is worth its tables.
constexpr double MaxTreeEntries = 3e6;
/// What the exact search for one limit may visit before anything else is
/// tried: a fraction of a second.
constexpr double FirstBudget = 1.5e7;
} // namespace

Stage::Stage(Model Reduced, uint64_t Seed, const DualState &From)
    : M(std::move(Reduced)), Pool(M), Tables(M, Pool), Climber(M, Pool, From),
      Tree(Tables, Pool, MaxTreeEntries), Proven(Climber.bound()) {
  Random R(Seed);
  for (size_t I = 0; I < WalkerCount; ++I)
    Walkers.push_back(
        std::make_unique<Walker>(Walker{Search(Tables, R.next()), {}}));
  for (auto &W : Walkers)
    W->Luck = Random(R.next());
  double Entries = static_cast<double>(Tables.valueCount());
  for (const Pair &P : M.Pairs)
    Entries += static_cast<double>(P.Table.size());
  RoundQuota = std::clamp(Entries * 12, 2e5, 2e7);
  ClimbQuota = Climber.passWork() * 12;
  Best.X.assign(M.Vars.size(), 0);
  score(M, Best);
  Exploited = Best;
  for (auto &W : Walkers)
    W->Current = Best;
}

double Stage::work() const {
  double Sum = Climber.work() + ExactWork + Tree.work();
  for (const auto &W : Walkers)
    Sum += W->Engine.work() + W->ExtraWork;
  return Sum;
}

void Stage::adopt(const Labels &X) {
  Candidate C;
  C.X = X;
  score(M, C);
  if (C.betterThan(Best))
    Best = Exploited = C;
}

/// Every variable at the value that uses least over time; then those that use
/// nothing, one after another, as the others like it best.
static Labels leastUsageLabels(const Model &M) {
  Labels X(M.Vars.size(), -1);
  for (size_t V = 0; V < M.Vars.size(); ++V) {
    std::vector<double> Sum(M.Vars[V].Unary.size(), 0);
    for (const Load &L : M.Vars[V].Loads)
      for (size_t S = 0; S < Sum.size(); ++S)
        Sum[S] += static_cast<double>(L.Amount[S]) * (L.End - L.Begin);
    if (!M.Vars[V].Loads.empty())
      X[V] = static_cast<int32_t>(std::ranges::min_element(Sum) - Sum.begin());
  }
  for (size_t V = 0; V < M.Vars.size(); ++V) {
    if (X[V] >= 0)
      continue;
    const Variable &Var = M.Vars[V];
    std::vector<double> Sum(Var.Unary.begin(), Var.Unary.end());
    for (int32_t Id : Var.Pairs) {
      const Pair &P = M.Pairs[Id];
      int32_t Other = X[P.other(static_cast<int32_t>(V))];
      if (Other < 0)
        continue;
      PairView Costs(M, P, static_cast<int32_t>(V));
      for (size_t S = 0; S < Sum.size(); ++S)
        Sum[S] += static_cast<double>(Costs(static_cast<int32_t>(S), Other));
    }
    X[V] = static_cast<int32_t>(std::ranges::min_element(Sum) - Sum.begin());
  }
  return X;
}

void Stage::begin(double Target, Cost Known,
                  const std::function<bool()> &Stop) {
  adopt(leastUsageLabels(M));
  Climber.climb(Target, ClimbQuota * 4, Stop);
  adopt(Climber.guess());
  if (!Tree.usable())
    return;
  double Aim = feasible() ? static_cast<double>(Best.Total) : Target;
  Tree.climb(Climber.best().prices(), Aim, Stop);
  adopt(Tree.feasibleLabels().value_or(Tree.labels()));
  OneLimit = M.Capacity.size() <= 1;
  if (!OneLimit)
    return;
  ForExact.emplace();
  ExactBudget = FirstBudget;
  constructOneLimit(Stop);
  if (Finished)
    return;
  if (feasible())
    Known = std::min(Known, Best.Total);
  tryExact(Known, Stop);
  takeExact();
}

/// With lists cut short the search is fast and nearly exact. Looks a little
/// above the bound first, where lists are short by themselves.
void Stage::constructOneLimit(const std::function<bool()> &Stop) {
  constexpr double Budget = FirstBudget / 3;
  size_t MaxList = 24;
  prepareTree();
  double Gap = 2e-5 * std::abs(Tree.bound()) + 1;
  for (int Try = 0; Try < 10 && !Stop(); ++Try) {
    double Reach = Tree.bound() + Gap;
    Cost Below = feasible() ? Best.Total : InfiniteCost;
    bool Last = Reach >= static_cast<double>(Below);
    if (!Last)
      Below = static_cast<Cost>(Reach);
    ExactResult R =
        solveOneLimit(M, *ForExact, Tree, Below, Budget, MaxList, Stop);
    ExactWork += R.Work * exactWeight();
    if (R.Complete)
      Proven = std::max(Proven, static_cast<double>(Below));
    if (R.Best)
      adopt(*R.Best);
    Finished = R.Complete && (R.Best || Last);
    if (Finished)
      return;
    if (R.Work > Budget && MaxList > 2)
      MaxList /= 2;
    else if (R.Best || Last)
      return;
    else
      Gap *= 2.5;
  }
}

double Stage::bound() const {
  return std::max({Climber.bound(), Proven,
                   Tree.usable() ? Tree.bound() : Climber.bound()});
}

/// What the bound likes, more or less.
Labels Stage::sample(Random &R) const {
  // Where the gap is small already, it alone would always say the same.
  double Gap = std::max(
      {1.0, static_cast<double>(Best.Total) - Bound, 0.01 * std::abs(Bound)});
  double Noise = std::pow(10.0, -1 - 3 * R.unit()) * Gap;
  double PriceFactor = std::pow(2.0, 2 * R.unit() - 1);
  return Relaxed->sample(Noise, PriceFactor, R);
}

/// Few values of every variable, the walker's own first: those of the walkers
/// that go their own ways, or those that the bound makes likely. What others
/// have done better somewhere is worth having even if they are worse on the
/// whole.
std::vector<std::vector<int32_t>>
Stage::valuesToTry(size_t Index, Walker &W, const std::function<bool()> &Stop) {
  if (Index == TriesLikely || Proposals.empty())
    return likelyValues(W.Current.X, ValueBounds,
                        2 + static_cast<size_t>(W.Age / 2) % 4, W.Luck);
  if (Index == TriesOneProposal)
    return proposedValues(W.Current.X,
                          {Proposals[W.Luck.below(Proposals.size())]});
  W.ExtraWork +=
      recombineAll(M, W.Current, Proposals, Prices, RoundQuota, W.Luck, Stop);
  std::vector<Labels> Some;
  size_t Skip = Proposals.size() - std::min(Proposals.size(), MaxFused);
  for (size_t I = 0; I < Proposals.size(); ++I)
    if (W.Luck.below(Proposals.size() - I) >= Skip)
      Some.push_back(Proposals[I]);
    else
      --Skip;
  return proposedValues(W.Current.X, Some);
}

void Stage::walkRestricted(size_t Index, const std::function<bool()> &Stop) {
  Walker &W = *Walkers[Index];
  auto Keep = valuesToTry(Index, W, Stop);
  if (std::ranges::all_of(Keep, [](const auto &Row) { return Row.size() < 2; }))
    return W.Engine.improve(W.Current, Prices, RoundQuota, 0, Stop);
  W.ExtraWork += improveRestricted(M, W.Current, Prices, std::move(Keep),
                                   RoundQuota, W.Luck, Stop);
}

/// What is exploited, but for another value of one variable that the bound
/// does not speak against; it is pinned, so that the rest has to follow.
bool Stage::pinOther(Walker &W) {
  double Least = static_cast<double>(Best.Total);
  int32_t Chosen = -1, Value = -1;
  // Of how many the likeliest is taken.
  size_t Choices = 1 + W.Luck.below(12);
  for (size_t Try = 0; Try < 40 * Choices && Choices > 0; ++Try) {
    size_t V = W.Luck.below(M.Vars.size());
    size_t S = W.Luck.below(M.Vars[V].size());
    if (static_cast<int32_t>(S) == Exploited.X[V] ||
        ValueBounds[V][S] >= static_cast<double>(Best.Total))
      continue;
    --Choices;
    if (ValueBounds[V][S] < Least) {
      Least = ValueBounds[V][S];
      Chosen = static_cast<int32_t>(V);
      Value = static_cast<int32_t>(S);
    }
  }
  if (Chosen < 0)
    return false;
  W.Current = Exploited;
  W.Current.X[Chosen] = Value;
  W.Engine.pin(Chosen);
  return true;
}

/// Starts from the bound's guess, from a sample of what it likes, or, if it may
/// and what is exploited is good already, from that with a value pinned.
void Stage::setOut(Walker &W, bool MayPin, const std::function<bool()> &Stop) {
  W.Engine.pin(-1);
  bool Near =
      Exploited.feasible() &&
      static_cast<double>(Exploited.Total) - Bound < 0.01 * std::abs(Bound);
  if (MayPin && Near && W.Luck.below(4) == 0 && pinOther(W)) {
    W.Unpin = W.Left / 2;
  } else {
    W.Unpin = 0;
    W.Current.X = W.Luck.below(2) ? sample(W.Luck) : Guess;
  }
  score(M, W.Current);
  W.Engine.construct(W.Current, Prices, 100 * RoundQuota, Stop);
}

void Stage::walk(size_t Index, bool Afresh, const std::function<bool()> &Stop) {
  Walker &W = *Walkers[Index];
  if (Index < Exploiting && !SettingOut) {
    W.Current = Exploited;
    if (W.Age++ % 2 == 0 || Index == TriesOneProposal)
      walkRestricted(Index, Stop);
    else
      W.Engine.improve(W.Current, Prices, RoundQuota, 0, Stop);
    return;
  }
  Cost Tolerance = 0;
  if (Index < Exploiting) {
    setOut(W, false, Stop);
  } else if (Afresh || W.Left == 0) {
    W.Left = Lifetimes[Index - Exploiting];
    setOut(W, !SettingOut, Stop);
  } else {
    double Gap = static_cast<double>(W.Current.Total) - Bound;
    Tolerance = static_cast<Cost>(std::max(0.0, Gap) * 1e-3);
  }
  W.Engine.improve(W.Current, Prices, RoundQuota, Tolerance, Stop);
  if (Index >= Exploiting && --W.Left == W.Unpin)
    W.Engine.pin(-1);
}

/// How much of the gap is memory that is paid for and that the best leaves
/// unused. Little, if prices are right.
double Stage::unusedShareOfGap() const {
  std::vector<Usage> Used = usageOf(M, Best.X);
  double Unused = 0;
  for (size_t T = 0; T < Used.size(); ++T)
    Unused += Prices[T] * static_cast<double>(M.Capacity[T] - Used[T]);
  return Unused / std::max(1.0, static_cast<double>(Best.Total) - Bound);
}

void Stage::round(double Target, Cost Known, unsigned Threads,
                  const std::function<bool()> &Stop) {
  Prices = Tree.usable() ? Tree.prices() : Climber.best().prices();
  Guess = Climber.guess();
  Bound = Climber.bound();
  Relaxed = Climber.best();
  ValueBounds = Relaxed->valueBounds();
  Proposals.clear();
  Proposals.insert(Proposals.end(), Ended.begin(), Ended.end());
  for (const auto &W : Walkers)
    if (W->Left > 0)
      Proposals.push_back(W->Current.X);
  ForExact.reset();
  if (exactIsDue())
    ForExact = Tree.usable() ? Dual::Reduced{} : Climber.best().reducedCosts();
  // While the bound still rises fast, good prices are worth more than a search
  // with bad ones: then only one walker works, which tries out guesses.
  double Gap = std::abs(Target - Bound);
  bool Rising = Bound - LastBound > 5e-3 * std::min(Gap, std::abs(Bound));
  LastBound = Bound;
  // Far from the best cost, a bound that rests is only shortening its steps.
  RoundsAtRest = Rising ? 0 : RoundsAtRest + 1;
  Rising |= Gap > std::abs(Bound) && RoundsAtRest < 4;
  bool Afresh = Rising || !Best.feasible();
  size_t First = Rising ? Exploiting : 0;
  size_t End = Rising && Best.feasible() ? Exploiting + 1 : WalkerCount;
  runParallel(Threads, End - First + 2, [&](size_t Task) {
    if (Task == 0)
      Climber.climb(Target, Rising ? 16 * ClimbQuota : ClimbQuota, Stop);
    else if (Task == 1)
      tryExact(Known, Stop);
    else
      walk(First + Task - 2, Afresh, Stop);
  });
  join(First, End);
}

double Stage::exactWeight() const {
  return OneLimit ? OneLimitWeight : ExactWeight;
}

/// Early, then whenever the other searches have done their share.
bool Stage::exactIsDue() const {
  return ExactWork + ExactBudget * exactWeight() <=
         ExactShare * work() + 1e5 * exactWeight();
}

/// Searches a little above the bound, then further: if nothing is there, that
/// is a better bound; if something is, it is the optimum. The little step keeps
/// the lists short whatever the best cost known.
void Stage::tryExact(Cost Known, const std::function<bool()> &Stop) {
  Exact = {};
  if (!ForExact)
    return;
  if (Tree.usable()) {
    Tree.climb(Tree.prices(), static_cast<double>(Known), Stop);
    prepareTree();
  }
  double From =
      std::max(Tree.usable() ? Tree.bound() : ForExact->Bound, Proven);
  ExactStep = std::max({ExactStep / 4, 1e-6 * std::abs(From), 1.0});
  double LastWork = 0;
  for (double Left = ExactBudget; Left > 0;) {
    double Reach = std::ceil(From + ExactStep);
    Cost Below =
        Reach < static_cast<double>(Known) ? static_cast<Cost>(Reach) : Known;
    ExactResult R = searchBelow(Below, Left, Stop);
    ExactWork += R.Work * exactWeight();
    Left -= R.Work + 100;
    if (!R.Complete)
      break;
    Proven = static_cast<double>(Below);
    if (R.Best || Below == Known) {
      Exact = std::move(R);
      break;
    }
    // Lists grow fast once the step lets anything in at all.
    bool Grows = LastWork > 0 && R.Work > 1.2 * LastWork;
    LastWork = R.Work;
    ExactStep *= Grows ? 1.5 : OneLimit ? 2 : 4;
  }
  ExactBudget *= 2;
}

void Stage::prepareTree() {
  Tree.prepare();
  ForExact = Tree.pricedCosts();
}

ExactResult Stage::searchBelow(Cost Below, double MaxWork,
                               const std::function<bool()> &Stop) const {
  if (OneLimit)
    return solveOneLimit(M, *ForExact, Tree, Below, MaxWork, 0, Stop);
  return solveExactly(M, *ForExact, Tree.usable() ? &Tree : nullptr, Below,
                      MaxWork, Stop);
}

void Stage::takeExact() {
  if (!ForExact || !Exact.Complete)
    return;
  Finished = true;
  if (Exact.Best)
    adopt(*Exact.Best);
}

/// Keeps what something that is over has come to.
void Stage::remember(const Candidate &C) {
  if (!C.feasible())
    return;
  Ended.push_back(C.X);
  if (Ended.size() > MaxEnded)
    Ended.pop_front();
}

/// Takes over the best result of these walkers and whatever the others changed
/// elsewhere.
void Stage::join(size_t First, size_t End) {
  takeExact();
  for (size_t W = std::max(First, Exploiting); W < End; ++W)
    if (Walkers[W]->Left == 0)
      remember(Walkers[W]->Current);
  std::vector<size_t> Results;
  for (size_t W = First; W < End; ++W)
    if (SettingOut || Walkers[W]->Current.betterThan(Exploited))
      Results.push_back(W);
  std::ranges::sort(Results, [&](size_t A, size_t B) {
    const Candidate &L = Walkers[A]->Current, &R = Walkers[B]->Current;
    return L.betterThan(R) || (!R.betterThan(L) && A < B);
  });
  Cost Before = SettingOut ? InfiniteCost : Exploited.Total;
  if (SettingOut)
    Exploited = Walkers[Results.front()]->Current;
  SettingOut = false;
  Labels Base = Exploited.X;
  for (size_t W : Results) {
    const Labels &X = Walkers[W]->Current.X;
    Candidate Next = Exploited;
    for (size_t V = 0; V < Base.size(); ++V)
      if (X[V] != Base[V])
        Next.X[V] = X[V];
    score(M, Next);
    if (Next.betterThan(Exploited))
      Exploited = std::move(Next);
  }
  if (Exploited.betterThan(Best))
    Best = Exploited;
  chooseExploited(Before);
}

/// When what is exploited has not become notably better than `Before` for a
/// while, another one sets out; when that stalls too, the best is next, which
/// may learn from it. If the bound stands still as well, its prices may be to
/// blame.
void Stage::chooseExploited(Cost Before) {
  double Gain =
      static_cast<double>(Before) - static_cast<double>(Exploited.Total);
  double Gap = static_cast<double>(Exploited.Total) - Bound;
  // One that is not feasible may cost less than the bound, and lose cost
  // without becoming better.
  bool Better = Exploited.feasible() && Gain > 1e-3 * Gap;
  RoundsStalled = Better ? 0 : RoundsStalled + 1;
  if (RoundsStalled < Patience || !Best.feasible())
    return;
  RoundsStalled = 0;
  if (RoundsAtRest >= Patience && unusedShareOfGap() > 0.5)
    Climber.lowerPrices();
  Anew = !Anew;
  if (!Anew) {
    remember(std::exchange(Exploited, Best));
    return;
  }
  SettingOut = true;
  Ended.clear();
  for (auto &W : Walkers)
    W->Left = 0;
}

} // namespace heddle::solver
