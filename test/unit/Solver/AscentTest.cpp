//===- AscentTest.cpp - Bounds, guesses and samples of small models -------===//

#include "Bound/Ascent.h"
#include "RandomModel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace heddle;
using namespace heddle::solver;

namespace {

const std::function<bool()> Never = [] { return false; };

/// The least cost of all feasible assignments.
Cost leastCost(const Model &M) {
  Cost Least = InfiniteCost;
  Labels X(M.Vars.size(), 0);
  for (;;) {
    if (withinCapacity(M, usageOf(M, X)))
      Least = std::min(Least, costOf(M, X));
    size_t V = 0;
    while (V < X.size() && ++X[V] == M.Vars[V].size())
      X[V++] = 0;
    if (V == X.size())
      return Least;
  }
}

/// The first variables of a random model, so that all assignments can be tried.
Model smallModel(Random &R) {
  constexpr int32_t Count = 8;
  Model Whole = randomModel(R), M;
  M.Vars.assign(Whole.Vars.begin(), Whole.Vars.begin() + Count);
  for (Variable &V : M.Vars)
    V.Pairs.clear();
  for (const Pair &P : Whole.Pairs) {
    if (P.A >= Count || P.B >= Count)
      continue;
    for (int32_t V : {P.A, P.B})
      M.Vars[V].Pairs.push_back(static_cast<int32_t>(M.Pairs.size()));
    M.Pairs.push_back(P);
  }
  M.Capacity.assign(Times, 20 + static_cast<Usage>(R.below(20)));
  return M;
}

/// A small model with a feasible assignment, and the cost of the best.
struct Solved {
  Model M;
  double Least;
};

Solved solvedModel(Random &R) {
  for (;;) {
    Model M = smallModel(R);
    if (Cost Least = leastCost(M); Least < InfiniteCost)
      return {std::move(M), static_cast<double>(Least)};
  }
}

/// A chain of variables without limit, on which message passing is exact.
Model chain(Random &R, int32_t Length) {
  Model M;
  M.Vars.resize(Length);
  for (Variable &V : M.Vars)
    for (int S = 0; S < 4; ++S)
      V.Unary.push_back(static_cast<Cost>(R.below(1000)));
  for (int32_t A = 0; A + 1 < Length; ++A) {
    Pair P{A, A + 1, {}};
    for (int I = 0; I < 16; ++I)
      P.Table.push_back(static_cast<Cost>(R.below(1000)));
    M.Vars[A].Pairs.push_back(A);
    M.Vars[A + 1].Pairs.push_back(A);
    M.Pairs.push_back(P);
  }
  return M;
}

TEST(Ascent, ProvesNoMoreThanIsTrue) {
  Random R(1);
  int Proven = 0;
  for (int Round = 0; Round < 200; ++Round) {
    auto [M, Target] = solvedModel(R);
    TablePool Pool(M);
    Ascent Climber(M, Pool, {});
    EXPECT_FALSE(Climber.prove(Target + 1, 2e5, Never)) << "round " << Round;
    EXPECT_LE(Climber.bound(), Target);
    Proven += Climber.prove(Target, 2e5, Never);
  }
  EXPECT_GT(Proven, 20);
}

TEST(Ascent, LowersPricesThatAreTooHigh) {
  Random R(5);
  int Higher = 0;
  for (int Round = 0; Round < 40; ++Round) {
    auto [M, Target] = solvedModel(R);
    TablePool Pool(M);
    Ascent Climber(M, Pool, {std::vector<double>(Times, 50.0), {}});
    double First = Climber.bound(), Last = First;
    double FirstPrice = Climber.best().prices()[0];
    for (int I = 0; I < 20; ++I) {
      Climber.lowerPrices();
      Climber.climb(Target, 100 * Climber.passWork(), Never);
      EXPECT_GE(Climber.bound(), Last);
      EXPECT_LE(Climber.bound(), Target);
      Last = Climber.bound();
    }
    Higher += Last > First && Climber.best().prices()[0] < FirstPrice;
  }
  EXPECT_GT(Higher, 20);
}

TEST(Ascent, VisitsItsQuota) {
  Random R(2);
  Model M = smallModel(R);
  TablePool Pool(M);
  Ascent Climber(M, Pool, {});
  double OfPass = Climber.work(), Until = 0; // one pass is part of the start
  for (int Call = 0; Call < 5000; ++Call) {
    Climber.climb(1e6, 0.3 * OfPass, Never);
    Until += 0.3 * OfPass;
    EXPECT_LT(Climber.work(), Until + OfPass + 1) << "call " << Call;
  }
  EXPECT_GE(Climber.work(), Until);
  double Before = Climber.work();
  Climber.climb(1e6, 1e9, [] { return true; });
  EXPECT_EQ(Climber.work(), Before);
}

TEST(Dual, SamplesTheOptimumOfAChain) {
  Random R(3);
  Model M = chain(R, 30);
  TablePool Pool(M);
  Dual D(M, Pool, {});
  for (int I = 0; I < 50; ++I)
    D.pass();
  Cost Best = costOf(M, D.guess());
  EXPECT_NEAR(D.bound(), static_cast<double>(Best), 1e-3);
  EXPECT_EQ(costOf(M, D.sample(0, 1, R)), Best);
  std::set<Labels> Different;
  for (int I = 0; I < 20; ++I) {
    Labels X = D.sample(300, 1, R);
    EXPECT_GE(costOf(M, X), Best);
    Different.insert(X);
  }
  EXPECT_GT(Different.size(), 10u);
}

TEST(Dual, SamplesUseLessWhereUsageCostsMore) {
  Random R(4);
  int Less = 0, More = 0;
  for (int Round = 0; Round < 50; ++Round) {
    Model M = smallModel(R);
    TablePool Pool(M);
    Dual D(M, Pool, {std::vector<double>(Times, 3.0), {}});
    for (int I = 0; I < 20; ++I)
      D.pass();
    auto UsageAt = [&](double Factor) {
      Usage Sum = 0;
      for (Usage U : usageOf(M, D.sample(0, Factor, R)))
        Sum += U;
      return Sum;
    };
    Usage Cheap = UsageAt(0.25), Dear = UsageAt(4);
    Less += Dear < Cheap;
    More += Dear > Cheap;
  }
  EXPECT_GT(Less, 40);
  EXPECT_LT(More, 3);
}

TEST(Dual, MeasuresRoundingByWhatCancels) {
  // Two values alike in everything but messages of 10^15 that cancel.
  Model M;
  M.Vars.resize(2);
  M.Vars[0] = {{0, 0}, {}, {0}};
  M.Vars[1] = {{0, 0}, {}, {0}};
  M.Pairs.push_back({0, 1, {1, 1, 1, 1}});
  TablePool Pool(M);
  Dual Plain(M, Pool, {});
  Dual Huge(M, Pool, {{}, {{1e15, 1e15, -1e15, -1e15}}});
  Plain.pass();
  EXPECT_LT(Plain.rounding(), 1e-5);
  EXPECT_GT(Huge.rounding(), 1);
}

} // namespace
