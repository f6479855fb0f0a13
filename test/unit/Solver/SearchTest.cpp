//===- SearchTest.cpp - What a search may and may not change --------------===//

#include "Search/Search.h"
#include "RandomModel.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::solver;

namespace {

const std::function<bool()> Never = [] { return false; };

/// A model, and a feasible assignment of it.
struct Start {
  Model M;
  Candidate C;
};

Start randomStart(Random &R) {
  for (;;) {
    Start S{randomModel(R), {randomLabels(R)}};
    S.M.Capacity = usageOf(S.M, S.C.X);
    score(S.M, S.C);
    if (S.C.feasible())
      return S;
  }
}

TEST(Search, LeavesAPinnedVariableAlone) {
  Random R(1);
  const std::vector<double> Prices(Times, 1.0);
  int Moved = 0;
  for (int Round = 0; Round < 60; ++Round) {
    Start S = randomStart(R);
    TablePool Pool(S.M);
    CostTables Tables(S.M, Pool);
    Search Pinned(Tables, R.next()), Free(Tables, R.next());
    auto V = static_cast<int32_t>(R.below(VariableCount));
    int32_t Value = S.C.X[V];
    Candidate C = S.C, Other = S.C;
    Pinned.pin(V);
    Pinned.construct(C, Prices, 1e5, Never);
    EXPECT_EQ(C.X[V], Value);
    Pinned.improve(C, Prices, 1e5, 0, Never);
    EXPECT_EQ(C.X[V], Value);
    EXPECT_FALSE(S.C.betterThan(C));
    Free.improve(Other, Prices, 1e5, 0, Never);
    Moved += Other.X[V] != Value;
  }
  EXPECT_GT(Moved, 10);
}

TEST(Search, StopsAtOnce) {
  Random R(2);
  Start S = randomStart(R);
  TablePool Pool(S.M);
  CostTables Tables(S.M, Pool);
  Search Engine(Tables, 1);
  Candidate C = S.C;
  const std::vector<double> Prices(Times, 1.0);
  auto Now = [] { return true; };
  Engine.improve(C, Prices, 1e18, 0, Now);
  Engine.improveAtOnce(C, Prices, 1e18, Now);
  Engine.construct(C, Prices, 1e18, Now);
  EXPECT_EQ(C.X, S.C.X);
}

} // namespace
