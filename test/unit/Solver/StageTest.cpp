//===- StageTest.cpp - What is exploited, round after round ---------------===//

#include "Search/Stage.h"
#include "Grid.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::solver;

namespace {

const std::function<bool()> Never = [] { return false; };

/// Three values a variable on a grid; every second entry of half of the tables
/// is infinite if `Forbids`, so that most samples are not feasible.
Model grid(Random &R, int32_t Side, bool Forbids) {
  Model M;
  M.Vars.resize(Side * Side);
  M.Capacity.assign(4, 0);
  for (Variable &V : M.Vars) {
    Load L{static_cast<int32_t>(R.below(3)), 4, {}};
    for (int S = 0; S < 3; ++S) {
      V.Unary.push_back(static_cast<Cost>(R.below(100000)));
      L.Amount.push_back(static_cast<Usage>(R.below(1000)));
    }
    for (int32_t T = L.Begin; T < L.End; ++T)
      M.Capacity[T] += (L.Amount[0] + L.Amount[1] + L.Amount[2]) / 4;
    V.Loads.push_back(std::move(L));
  }
  joinGrid(Side, [&](int32_t A, int32_t B) {
    Pair P{A, B, {}};
    bool Strict = Forbids && R.below(2);
    for (int I = 0; I < 9; ++I)
      P.Table.push_back(Strict && I % 2 ? InfiniteCost
                                        : static_cast<Cost>(R.below(100000)));
    for (int32_t V : {A, B})
      M.Vars[V].Pairs.push_back(static_cast<int32_t>(M.Pairs.size()));
    M.Pairs.push_back(std::move(P));
  });
  return M;
}

void run(bool Forbids, int32_t Side) {
  Random R(1);
  Stage S(grid(R, Side, Forbids), 1, {});
  S.begin(1e9, InfiniteCost, Never);
  int Departures = 0, Returns = 0;
  bool Away = false;
  for (int Round = 0; Round < 80; ++Round) {
    Candidate Before = S.best();
    auto Target = static_cast<double>(S.best().Total);
    S.round(Target, S.feasible() ? S.best().Total : InfiniteCost, 2, Never);
    EXPECT_FALSE(Before.betterThan(S.best())) << "round " << Round;
    EXPECT_FALSE(S.exploited().betterThan(S.best())) << "round " << Round;
    Candidate Again{S.best().X};
    score(S.model(), Again);
    EXPECT_EQ(Again.Total, S.best().Total);
    EXPECT_LE(S.bound(), static_cast<double>(S.best().Total) + 1);
    bool Now = S.best().betterThan(S.exploited());
    Departures += Now && !Away;
    Returns += Away && !Now;
    Away = Now;
  }
  EXPECT_TRUE(S.feasible());
  EXPECT_GE(Departures, 1);
  EXPECT_GE(Returns, 1);
}

TEST(Stage, SetsOutAnewAndReturnsToTheBest) { run(false, 18); }

TEST(Stage, ReturnsFromInfeasibleBeginnings) { run(true, 18); }

} // namespace
