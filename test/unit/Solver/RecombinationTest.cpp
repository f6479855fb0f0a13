//===- RecombinationTest.cpp - The best mixture against all mixtures ------===//

#include "Search/Recombination.h"
#include "RandomModel.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::solver;

namespace {

/// Of every variable, the first one of its component among those that differ;
/// -1 where none of the assignments does.
std::vector<int32_t> componentsOf(const Model &M, const Labels &X,
                                  const std::vector<Labels> &Others) {
  std::vector<int32_t> Root(VariableCount, -1);
  for (int32_t V = 0; V < VariableCount; ++V)
    for (const Labels &O : Others)
      if (O[V] != X[V])
        Root[V] = V;
  for (bool Changed = true; Changed;) {
    Changed = false;
    for (const Pair &P : M.Pairs) {
      int32_t &A = Root[P.A], &B = Root[P.B];
      if (A < 0 || B < 0 || A == B)
        continue;
      A = B = std::min(A, B);
      Changed = true;
    }
  }
  return Root;
}

/// The least cost of all feasible mixtures.
Cost leastOfMixtures(const Model &M, const Labels &X,
                     const std::vector<Labels> &Others) {
  std::vector<int32_t> Root = componentsOf(M, X, Others), Roots;
  for (int32_t V = 0; V < VariableCount; ++V)
    if (Root[V] == V)
      Roots.push_back(V);
  size_t Ways = Others.size() + 1, Count = 1;
  for (size_t I = 0; I < Roots.size(); ++I)
    Count *= Ways;
  Cost Least = InfiniteCost;
  for (size_t Number = 0; Number < Count; ++Number) {
    Candidate Mixed{X};
    size_t Rest = Number;
    for (int32_t Own : Roots) {
      size_t Way = Rest % Ways;
      Rest /= Ways;
      for (int32_t V = 0; V < VariableCount && Way > 0; ++V)
        if (Root[V] == Own)
          Mixed.X[V] = Others[Way - 1][V];
    }
    score(M, Mixed);
    if (Mixed.feasible())
      Least = std::min(Least, Mixed.Total);
  }
  return Least;
}

TEST(Recombination, FindsTheBestMixture) {
  Random R(1);
  int Improved = 0, Bound = 0;
  for (int Round = 0; Round < 300; ++Round) {
    Model M = randomModel(R);
    Candidate C{randomLabels(R)};
    // As tight as the first assignment, or a little looser.
    std::vector<Usage> Used = usageOf(M, C.X);
    for (int T = 0; T < Times; ++T)
      M.Capacity[T] = Used[T] + static_cast<Usage>(R.below(6));
    score(M, C);
    if (!C.feasible())
      continue;
    std::vector<Labels> Others(1 + R.below(3));
    std::vector<const Labels *> Pointers;
    for (Labels &X : Others) {
      // The same in most variables, so that there are components.
      X = C.X;
      Labels Fresh = randomLabels(R);
      for (int V = 0; V < VariableCount; ++V)
        if (R.below(2))
          X[V] = Fresh[V];
      Pointers.push_back(&X);
    }
    Cost Before = C.Total, Least = leastOfMixtures(M, C.X, Others);
    Model Free = M;
    std::fill(Free.Capacity.begin(), Free.Capacity.end(), Usage(1) << 40);
    Bound += leastOfMixtures(Free, C.X, Others) < Least;
    recombine(M, C, Pointers, std::vector<double>(Times, 1.0),
              [] { return false; });
    EXPECT_TRUE(C.feasible());
    EXPECT_EQ(C.Total, Least) << "round " << Round << ", before " << Before;
    Candidate Again{C.X};
    score(M, Again);
    EXPECT_EQ(Again.Total, C.Total);
    Improved += C.Total < Before;
  }
  // The test would say nothing if there were nothing to find, or no limit.
  EXPECT_GT(Improved, 50);
  EXPECT_GT(Bound, 30);
}

/// Feasible, and others that share most of it.
struct Family {
  Model M;
  Candidate C;
  std::vector<Labels> Others;
};

/// At capacities that never bind, or at as tight as the first one keeps.
Family randomFamily(Random &R, bool Tight) {
  Family F{randomModel(R), {randomLabels(R)}, {}};
  F.M.Capacity.assign(Times, Usage(1) << 40);
  if (Tight)
    F.M.Capacity = usageOf(F.M, F.C.X);
  score(F.M, F.C);
  for (int I = 0; I < 3; ++I) {
    Labels &X = F.Others.emplace_back(F.C.X), Fresh = randomLabels(R);
    for (int V = 0; V < VariableCount; ++V)
      if (R.below(2))
        X[V] = Fresh[V];
  }
  return F;
}

const std::vector<double> AtOne(Times, 1.0);

TEST(Recombination, TakesTheCheapestWhereNothingBinds) {
  Random R(3);
  int Improved = 0;
  for (int Round = 0; Round < 50; ++Round) {
    Family F = randomFamily(R, false);
    if (!F.C.feasible())
      continue;
    Cost Before = F.C.Total, Least = leastOfMixtures(F.M, F.C.X, F.Others);
    std::vector<const Labels *> Pointers;
    for (const Labels &X : F.Others)
      Pointers.push_back(&X);
    recombine(F.M, F.C, Pointers, AtOne, [] { return false; });
    EXPECT_EQ(F.C.Total, Least);
    Improved += Least < Before;
  }
  EXPECT_GT(Improved, 5);
}

TEST(Recombination, AllIsNearlyAlwaysAsGoodAsTheBestOne) {
  Random R(4);
  int Improved = 0, Worse = 0;
  for (int Round = 0; Round < 200; ++Round) {
    Family F = randomFamily(R, true);
    if (!F.C.feasible())
      continue;
    Cost Before = F.C.Total, Least = Before;
    for (const Labels &X : F.Others)
      Least = std::min(Least, leastOfMixtures(F.M, F.C.X, {X}));
    Candidate None = F.C, Stopped = F.C;
    EXPECT_EQ(
        recombineAll(F.M, None, F.Others, AtOne, 0, R, [] { return false; }),
        0);
    EXPECT_EQ(None.X, F.C.X);
    recombineAll(F.M, Stopped, F.Others, AtOne, 1e9, R, [] { return true; });
    EXPECT_EQ(Stopped.X, F.C.X);
    double Work =
        recombineAll(F.M, F.C, F.Others, AtOne, 1e9, R, [] { return false; });
    EXPECT_GT(Work, 0);
    EXPECT_TRUE(F.C.feasible());
    EXPECT_LE(F.C.Total, Before);
    // The first mixture may shut out what the second one alone would bring.
    Worse += F.C.Total > Least;
    Improved += Least < Before;
  }
  EXPECT_GT(Improved, 20);
  EXPECT_LT(Worse, Improved / 10);
}

TEST(Recombination, LeavesInfeasibleAssignmentsAlone) {
  Random R(2);
  Model M = randomModel(R);
  M.Capacity.assign(Times, -1);
  Candidate C{randomLabels(R)};
  score(M, C);
  Labels Before = C.X;
  recombineAll(M, C, {randomLabels(R), randomLabels(R)},
               std::vector<double>(Times, 1.0), 1e9, R, [] { return false; });
  EXPECT_EQ(C.X, Before);
}

} // namespace
