//===- Stage.cpp - All searches on one reduced model ----------------------===//

#include "Stage.h"
#include "Parallel.h"

#include <algorithm>

namespace heddle::solver {

namespace {
/// The first of these always work on the best assignment, the others go their
/// own ways for a while.
constexpr size_t WalkerCount = 8;
constexpr size_t Exploiting = 5;
constexpr int Lifetime = 40;
/// What an entry of the exact search costs in entries of the others, and the
/// share of all work that it may take.
constexpr double ExactWeight = 30;
constexpr double ExactShare = 0.2;
} // namespace

Stage::Stage(Model Reduced, uint64_t Seed, const std::vector<double> &Prices)
    : M(std::move(Reduced)), Tables(M), Climber(M, Prices) {
  Random R(Seed);
  for (size_t I = 0; I < WalkerCount; ++I)
    Walkers.push_back(
        std::make_unique<Walker>(Walker{Search(Tables, R.next()), {}, 0}));
  double Entries = static_cast<double>(Tables.valueCount());
  for (const Pair &P : M.Pairs)
    Entries += static_cast<double>(P.Table.size());
  RoundQuota = std::clamp(Entries * 12, 2e4, 2e7);
  Best.X.assign(M.Vars.size(), 0);
  score(M, Best);
}

double Stage::work() const {
  double Sum = Climber.work() + ExactWork;
  for (const auto &W : Walkers)
    Sum += W->Engine.work();
  return Sum;
}

void Stage::adopt(const Labels &X) {
  Candidate C;
  C.X = X;
  score(M, C);
  if (C.betterThan(Best))
    Best = C;
}

void Stage::begin(double Target, const std::function<bool()> &Stop) {
  Climber.climb(Target, RoundQuota * 10, Stop);
  adopt(Climber.guess());
  Walker &W = *Walkers[0];
  W.Current = Best;
  W.Engine.construct(W.Current, Climber.best().prices(), Stop);
  if (W.Current.betterThan(Best))
    Best = W.Current;
}

void Stage::walk(size_t Index, const std::function<bool()> &Stop) {
  Walker &W = *Walkers[Index];
  Cost Tolerance = 0;
  if (Index < Exploiting) {
    W.Current = Best;
  } else if (W.Age++ % Lifetime == 0 || !Best.feasible()) {
    W.Current = Best;
    W.Current.X = Guess;
    score(M, W.Current);
    W.Engine.construct(W.Current, Prices, Stop);
  } else {
    double Gap = static_cast<double>(W.Current.Total) - Bound;
    Tolerance = static_cast<Cost>(std::max(0.0, Gap) * 1e-3);
  }
  W.Engine.improve(W.Current, Prices, RoundQuota, Tolerance, Stop);
}

void Stage::round(double Target, Cost Known, unsigned Threads,
                  const std::function<bool()> &Stop) {
  Prices = Climber.best().prices();
  Guess = Climber.guess();
  Bound = Climber.bound();
  ForExact.reset();
  if (exactIsDue())
    ForExact = Climber.best().reducedCosts();
  runParallel(Threads, WalkerCount + 2, [&](size_t Task) {
    if (Task == 0)
      Climber.climb(Target, RoundQuota, Stop);
    else if (Task == 1)
      tryExact(Known, Stop);
    else
      walk(Task - 2, Stop);
  });
  join();
}

/// Early, then whenever the other searches have done their share.
bool Stage::exactIsDue() const {
  return ExactWork + ExactBudget * ExactWeight <=
         ExactShare * work() + 1e5 * ExactWeight;
}

void Stage::tryExact(Cost Known, const std::function<bool()> &Stop) {
  if (!ForExact)
    return;
  Exact = solveExactly(M, *ForExact, Known, ExactBudget, Stop);
  ExactWork += Exact.Work * ExactWeight;
  ExactBudget *= 2;
}

/// Takes over the best result and whatever the others changed elsewhere.
void Stage::join() {
  if (ForExact && Exact.Complete) {
    Finished = true;
    if (Exact.Best)
      adopt(*Exact.Best);
  }
  Labels Base = Best.X;
  std::vector<size_t> Results;
  for (size_t W = 0; W < Walkers.size(); ++W)
    if (Walkers[W]->Current.betterThan(Best))
      Results.push_back(W);
  std::ranges::sort(Results, [&](size_t A, size_t B) {
    const Candidate &L = Walkers[A]->Current, &R = Walkers[B]->Current;
    return L.betterThan(R) || (!R.betterThan(L) && A < B);
  });
  for (size_t W : Results) {
    const Labels &X = Walkers[W]->Current.X;
    Candidate Next = Best;
    for (size_t V = 0; V < Base.size(); ++V)
      if (X[V] != Base[V])
        Next.X[V] = X[V];
    score(M, Next);
    if (Next.betterThan(Best))
      Best = std::move(Next);
  }
}

} // namespace heddle::solver
